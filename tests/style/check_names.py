# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Names keep to .clang-tidy, in one clang-tidy run over one file that includes all others.

Usage: check_names.py TOP BUILD CLANG_TIDY
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

top, build, clang_tidy = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3]

# A wrong name of every kind, to see that each is found.
WRONG = """namespace shardmark {
struct wrong_struct { int Wrong_member; };
class WrongClass { void f(); int wrong_private; };
enum class wrong_enum { Wrong_constant };
using wrong_alias = int;
template <class wrong_type> struct WrongTemplate {};
inline void WrongFunction(int Wrong_parameter) { int Wrong_variable = Wrong_parameter; (void)Wrong_variable; }
}
"""
WRONG_NAMES = set(re.findall(r"\b(?:\w+_\w+|Wrong\w+|wrong_\w+)\b", WRONG)) - {"WrongClass", "WrongTemplate"}


def compile_options():
    """Those of a file of the library, without its name and output."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if pathlib.Path(entry["file"]).parts[-2:] == ("core", "runtime.cpp"):
            words = shlex.split(entry["command"])[1:]
            outputs = {i + k for i, word in enumerate(words) if word in ("-o", "-c") for k in (0, 1)}
            return [word for i, word in enumerate(words) if i not in outputs]
    sys.exit("compile_commands.json does not tell how src/core/runtime.cpp is compiled")


files = [file for folder in ["src", "miniapp"] for file in sorted((top / folder).rglob("*.?pp"))]
with tempfile.TemporaryDirectory() as folder:
    wrong = pathlib.Path(folder, "tests/wrong.hpp")
    wrong.parent.mkdir()
    wrong.write_text(WRONG)
    everything = pathlib.Path(folder, "everything.cpp")
    # Sources of equal helper names may clash in one file: an error to clang, but not for the names.
    everything.write_text("".join(f'#include "{file}"\n' for file in [*files, wrong]))
    command = [clang_tidy, "--quiet", f"--config-file={top}/.clang-tidy", str(everything), "--", *compile_options(),
               "-ferror-limit=0"]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

warnings = set(re.findall(r"^(/.*?): (?:warning|error): (.*) \[readability-identifier-naming", output, re.MULTILINE))
found_wrong = {re.search(r"'(\w+)'", text).group(1) for place, text in warnings if place.startswith(str(wrong))}
bad = sorted(f"{place}: {text}" for place, text in warnings if not place.startswith(str(wrong)))
print("\n".join(bad) if bad else f"the names in {len(files)} files are right")
if "fatal error" in output or found_wrong != WRONG_NAMES:
    print(output, f"clang-tidy did not get through: of the wrong names it was shown it missed "
          f"{sorted(WRONG_NAMES - found_wrong)}", sep="\n")
    sys.exit(1)
sys.exit(bool(bad))
