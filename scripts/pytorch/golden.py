#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Runs inputs/golden.toml in all its variants, compares each with PyTorch, and may store PyTorch's figures for the test
that needs no PyTorch (tests/test_golden.cpp).

    scripts/pytorch/golden.py                     compares
    scripts/pytorch/golden.py --write             writes tests/golden/tokens.bin and tests/golden/figures.json anew

New figures are due where initial weights, the order of samples or the deck change on purpose. Needs torch, numpy, h5py.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import torch

from compare import compare
from samples import philox, stream_key

TOP = pathlib.Path(__file__).resolve().parents[2]
DECK = "inputs/golden.toml"
MODELS = {
    "gpt_tied": [],
    "gpt_untied": ["model.tie_embeddings=false"],
    "mlp_sgd": ["model.kind=mlp", "model.sizes=[13, 31, 17, 5]", "data.kind=teacher", "optimizer.kind=sgd",
                "optimizer.clip=5", "schedule.kind=linear"],
}


def make_tokens(count=2113, vocab=97):
    """A text of which two thirds can't be guessed: one of three successors of the token before."""
    noise = philox(stream_key(1, "golden/tokens"), np.arange(count))[0] % 3
    tokens = [0]
    for part in noise[1:]:
        tokens.append((5 * tokens[-1] + 1 + int(part)) % vocab)
    return np.array(tokens, "<u2")


def figures_as_text(cases):
    head = {"pytorch": torch.__version__, "command": "scripts/pytorch/golden.py --write", "deck": DECK}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    bodies = [",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()) for case in cases]
    return "{\n" + "\n".join(lines) + '\n "cases": [\n  {\n' + "\n  },\n  {\n".join(bodies) + "\n  }\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the figures; nothing is written where one differs")
    parser.add_argument("--launch", default=f"{TOP}/scripts/run.sh -n 2", metavar="COMMAND",
                        help='what is put before the deck, for example "mpirun -n 3 build/shardmark train"')
    options = parser.parse_args()
    if options.write:
        make_tokens().tofile(TOP / "tests/golden/tokens.bin")

    cases, all_agree = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name, overrides in [(f"{model}_{precision}", [*overrides, f"precision.param={precision}"])
                                for model, overrides in MODELS.items() for precision in ("fp64", "fp32")]:
            run = pathlib.Path(folder, name)
            command = [*shlex.split(options.launch), str(TOP / DECK)]
            for assignment in [*overrides, f"output.dir={run}"]:
                command += ["--set", assignment]
            subprocess.run(command, cwd=TOP, check=True, stdout=subprocess.DEVNULL)
            figures, agree = compare(run)
            cases.append({"name": name, "set": overrides, **figures})
            all_agree = all_agree and agree
    if options.write and all_agree:
        (TOP / "tests/golden/figures.json").write_text(figures_as_text(cases))
    return not all_agree


if __name__ == "__main__":
    sys.exit(main())
