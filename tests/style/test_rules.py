# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule finds what it is there for, and lets the right thing pass."""

import pathlib
import tempfile
import unittest

import rules

HEAD = "// SPDX-FileCopyrightText: 2026 The Shardmark authors\n// SPDX-License-Identifier: Apache-2.0\n"

# (file, its text, the rule that must object, or None for a file that is right)
CASES = [
    ("src/core/types.hpp", HEAD + "#pragma once\n", None),
    ("src/core/types.hpp", "#pragma once\n", "licence"),
    ("scripts/a.sh", "#!/bin/sh\n", "licence"),
    ("src/core/long.cpp", HEAD + "\n" * 398, None),
    ("src/core/long.cpp", HEAD + "\n" * 399, "length"),
    ("tests/wide.py", HEAD.replace("//", "#") + "a" * 121, "length"),
    ("src/core/later.cpp", HEAD + "// TO" + "DO\n", "unfinished"),
    ("src/core/names.cpp", HEAD + 'auto folder = "/tmp/XXXXXX";\n', None),
    ("src/model/gpt.cpp", HEAD + '#include "layers/gelu.hpp"\n', None),
    ("src/model/gpt.cpp", HEAD + '#include "comm/communicator.hpp"\n', "include_direction"),
    ("src/layers/gelu.cpp", HEAD + '#  include "optim/adamw.hpp"\n', "include_direction"),
    ("src/core/rng.cpp", HEAD + '#include "layers/gelu.hpp"\n', "include_direction"),
    ("src/sharding/unit.cpp", HEAD + '#include "layers/gelu.hpp"\n', "include_direction"),
    ("src/sharding/unit.cpp", HEAD + '#include "strategy.hpp"\n', "include_direction"),
    ("src/train/step.cpp", HEAD + '#include "miniapp/main.hpp"\n', "include_direction"),
    ("src/extra/new.cpp", HEAD, "include_direction"),
    ("src/core/deck.cpp", HEAD + '#include "core/deck.hpp"\n\n#include <string>\n', None),
    ("src/core/deck.cpp", HEAD + '#include <string>\n\n#include "core/deck.hpp"\n', "own_header_first"),
    ("src/comm/mpi.cpp", HEAD + "#include <mpi.h>\n", None),
    ("src/train/step.cpp", HEAD + "#include <mpi.h>\n", "homes"),
    ("src/train/step.cpp", HEAD + "auto comm = MPI_COMM_WORLD;\n", "homes"),
    ("src/comm/mpi.cpp", HEAD + "auto comm = MPI_COMM_WORLD;\n", "homes"),
    ("src/core/runtime.cpp", HEAD + "auto comm = MPI_COMM_WORLD;\n", None),
    ("src/train/step.cpp", HEAD + "int x = 0;  // not on MPI_COMM_WORLD\n", None),
    ("miniapp/main.cpp", HEAD + "#include <hdf5.h>\n", "homes"),
    ("src/comm/mpi.cpp", HEAD + "#include <nccl.h>\n", "homes"),
    ("src/layers/linear.cpp", HEAD + "#include <KokkosBlas3_gemm.hpp>\n", "homes"),
    ("src/layers/gemm.cpp", HEAD + "#include <oneapi/dnnl/dnnl.hpp>\n", "homes"),
    ("src/layers/gemm_onednn.cpp", HEAD + "#include <cublas_v2.h>\n", "homes"),
    ("src/layers/attention.cpp", HEAD + '#include "layers/gemm_backends.hpp"\n', "homes"),
    ("src/layers/gemm_blas.cpp", HEAD + "#include <KokkosBlas3_gemm.hpp>\n", None),
    ("src/train/step.cpp", HEAD + "Kokkos::fence();\n", "homes"),
    ("src/train/step.cpp", HEAD + "exec.fence();\n", "homes"),
    ("src/train/step.cpp", HEAD + 'fence(exec, "shardmark::step::save: the host reads");\n', None),
    ("src/train/step.cpp", HEAD + 'f("shardmark::step::loss");\n', None),
    ("src/train/step.cpp", HEAD + 'f("shardmark::other::loss");\n', "labels"),
    ("src/train/step.cpp", HEAD + 'f("shardmark::loss");\n', "labels"),
    ("src/train/step.cpp", HEAD + "return {data, HostMirror<M>(), 0};\n", "empty_views"),
    ("src/train/step.cpp", HEAD + "return {data, HostMirror<M>(data), 0};\n", None),
]


class Rules(unittest.TestCase):
    def test_cases(self):
        for name, text, expected in CASES:
            with self.subTest(file=name, text=text[len(HEAD):60 + len(HEAD)], expected=expected):
                with tempfile.TemporaryDirectory() as folder:
                    top = pathlib.Path(folder)
                    for path, content in [("CMakeLists.txt", HEAD.replace("//", "#")), ("src/core/deck.hpp", HEAD),
                                          (name, text)]:
                        (top / path).parent.mkdir(parents=True, exist_ok=True)
                        (top / path).write_text(content)
                    found = rules.check(top)
                self.assertEqual({line.rsplit("[", 1)[1].rstrip("]") for line in found}, {expected} - {None})

    def test_every_rule_has_a_case(self):
        self.assertEqual({case[2] for case in CASES} - {None}, {rule.__name__ for rule in rules.RULES})


if __name__ == "__main__":
    unittest.main()
