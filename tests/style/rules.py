# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the source tree that no compiler or formatter knows.

Usage: rules.py TOP
A rule is a function from a Source to (line number, message) pairs.
"""

import collections
import pathlib
import re
import sys

# Who may include whom, besides the standard library and other packages. Every folder may include itself.
MAY_INCLUDE = {
    "core": [],
    "comm": ["core"],
    "layers": ["core"],
    "optim": ["core"],
    "data": ["core"],
    "model": ["core", "layers"],
    "sharding": ["core", "comm"],
    "checkpoint": ["core", "comm"],
    "forecast": ["core", "comm", "model", "sharding"],
    "train": ["core", "comm", "layers", "optim", "data", "model", "sharding", "checkpoint", "forecast"],
}

# A library is used in its home only: what gives its use away, and the files that may.
HOMES = [
    (r"#include <mpi\.h>", r"src/comm/.*|src/core/runtime\.cpp|src/checkpoint/hdf5.*"),
    (r"\bMPI_COMM_WORLD\b(?!\.)", r"src/core/runtime\.cpp"),
    (r"#include <nccl\.h>", r"src/comm/nccl.*"),
    (r"#include <(hdf5\.h|H5\w*)", r"src/checkpoint/hdf5.*"),
    (r"#include <(KokkosBlas|cblas|mkl)", r"src/layers/gemm_blas\.cpp"),
    (r"#include <cublas", r"src/layers/gemm_cublas\.cpp"),
    (r"#include <(oneapi/|)dnnl", r"src/layers/gemm_onednn\.cpp"),
    (r'#include "layers/gemm_backends\.hpp"', r"src/layers/gemm.*"),
    (r"[.:]fence\(", r"src/core/types\.hpp"),  # its fence() takes a reason
]

FORBIDDEN_WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|not impl" r"emented)\b")
LONGEST_FILE = 400
LONGEST_LINE = 120
CODE = {".cpp", ".hpp"}
TEXT = CODE | {".py", ".sh", ".cmake", ".txt"}

# A file: the tree's top, its path below it, and its lines.
Source = collections.namedtuple("Source", "top path lines")


def code_of(line):
    """The line without a comment at its end."""
    return re.sub(r"(^|\s)//.*", "", line)


def licence(source):
    head = "\n".join(source.lines[:3])
    for tag in ["SPDX-FileCopyrightText: ", "SPDX-License-Identifier: Apache-2.0"]:
        if tag not in head:
            yield 1, f"the first lines lack '{tag}'"


def length(source):
    if len(source.lines) > LONGEST_FILE:
        yield LONGEST_FILE + 1, f"{len(source.lines)} lines, more than {LONGEST_FILE}: probably two ideas in one file"
    for number, line in enumerate(source.lines, 1):
        if len(line) > LONGEST_LINE:
            yield number, f"{len(line)} columns, more than {LONGEST_LINE}"


def unfinished(source):
    for number, line in enumerate(source.lines, 1):
        if match := FORBIDDEN_WORDS.search(line):
            yield number, f"'{match.group()}': finish it"


def include_direction(source):
    parts = source.path.parts
    if parts[0] != "src" or source.path.suffix not in CODE:
        return
    folder = parts[1]
    if folder not in MAY_INCLUDE:
        yield 1, f"src/{folder} has no place in the order of folders (MAY_INCLUDE in tests/style/rules.py)"
        return
    for number, line in enumerate(source.lines, 1):
        if match := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
            other = match.group(1).split("/")[0]
            if "/" not in match.group(1):
                yield number, "own headers are included by their path below src/"
            elif other != folder and other not in MAY_INCLUDE[folder]:
                yield number, f"{folder} must not include {other}"


def own_header_first(source):
    """So that the compiler shows that every header with a .cpp of its name compiles alone."""
    header = source.path.with_suffix(".hpp")
    if source.path.parts[0] != "src" or source.path.suffix != ".cpp" or not (source.top / header).exists():
        return
    own = "/".join(header.parts[1:])
    includes = [(number, line) for number, line in enumerate(source.lines, 1) if re.match(r"\s*#\s*include", line)]
    if includes and f'"{own}"' not in includes[0][1]:
        yield includes[0][0], f'the first include must be "{own}"'


def homes(source):
    if source.path.parts[0] not in ("src", "miniapp") or source.path.suffix not in CODE:
        return
    for number, line in enumerate(source.lines, 1):
        for pattern, home in HOMES:
            if re.search(pattern, code_of(line)) and not re.fullmatch(home, source.path.as_posix()):
                yield number, f"'{line.strip()}' belongs in {home} only"


def labels(source):
    """Labels are shardmark::<file>::<what>, where <file> is one of the folder; a fence adds ': reason'."""
    if source.path.parts[0] != "src" or source.path.suffix not in CODE:
        return
    for number, line in enumerate(source.lines, 1):
        for label in re.findall(r'"(shardmark::[^"]*)"', code_of(line)):
            match = re.fullmatch(r"shardmark::(\w+)::(\w*)(: .+)?", label)
            if not match:
                yield number, f"'{label}' is not of the form shardmark::<file>::<what>"
            elif not list((source.top / source.path).parent.glob(match.group(1) + ".?pp")):
                yield number, f"'{label}': no file here is called {match.group(1)}"


def empty_views(source):
    """Kokkos 4.6 with g++ 12 crashes in copying an owning View that was made of nothing."""
    if source.path.suffix not in CODE:
        return
    for number, line in enumerate(source.lines, 1):
        if re.search(r"\b(OwnedVector|HostMirror|Snapshot)(<[^()]*>)?(\(\)|\{\})", code_of(line)):
            yield number, "an owning View without memory crashes where it is copied: std::optional is there for that"


RULES = [licence, length, unfinished, include_direction, own_header_first, homes, labels, empty_views]


def source_files(top):
    files = [top / "CMakeLists.txt"]
    for folder in ["src", "miniapp", "scripts", "tests"]:
        files += [file for file in sorted((top / folder).rglob("*")) if file.is_file()]
    return [file for file in files if file.suffix in TEXT and "golden" not in file.parts]


def check(top):
    """All that is wrong in the tree, as printable lines."""
    found = []
    for file in source_files(top):
        source = Source(top, file.relative_to(top), file.read_text(encoding="utf-8").splitlines())
        for rule in RULES:
            found += [f"{source.path}:{number}: {message} [{rule.__name__}]" for number, message in rule(source)]
    return found


def main():
    top = pathlib.Path(sys.argv[1]).resolve()
    found = check(top)
    print("\n".join(found) if found else f"{len(source_files(top))} files keep the rules")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
