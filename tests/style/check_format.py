# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""All C++ files are as clang-format leaves them.

Usage: check_format.py TOP CLANG_FORMAT
Exit code 77: another version of clang-format than the project's, whose taste differs.
"""

import pathlib
import re
import subprocess
import sys

import rules

VERSION = 14

top, clang_format = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
shown = subprocess.run([clang_format, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
if int(re.search(r"version (\d+)", shown).group(1)) != VERSION:
    print(f"skipped: the project is formatted by clang-format {VERSION}, this is {shown.strip()}")
    sys.exit(77)

ugly = subprocess.run([clang_format, "--dry-run", "-Werror", f"--style=file:{top}/.clang-format"],
                      input=b"int  main( ){}\n", stderr=subprocess.DEVNULL, check=False)
if ugly.returncode == 0:
    sys.exit("clang-format finds nothing wrong with an ugly line, so its word on the others means nothing")

files = [str(file) for file in rules.source_files(top) if file.suffix in rules.CODE]
sys.exit(subprocess.run([clang_format, "--dry-run", "-Werror", *files], check=False).returncode)
