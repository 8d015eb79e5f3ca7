#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Does a step's cost grow as its work? Trains one deck with several values of one key, in turn, round after round.

    scripts/cost_growth.py inputs/small.toml model.layers 2 6 12 24 --ranks 2
    scripts/cost_growth.py inputs/small.toml model.context 128 512 2048 --batches 16 4 1
    scripts/cost_growth.py inputs/small.toml parallel.strategy ddp zero3 --ranks 1

Per value: items/s, FLOP an item by the program's formula, FLOP/s, and the time a FLOP takes against the first value's
(1 = the cost grows as the formula says). Medians over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("key", help="section.key")
    parser.add_argument("values", nargs="+")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--set", action="append", default=[], help="more overrides of the deck")
    parser.add_argument("--batches", type=int, nargs="+",
                        help="samples a rank for each value, as one micro-batch: contexts with as many tokens a step")
    parser.add_argument("--program", default=str(TOP / "build/shardmark"))
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    if options.batches and len(options.batches) != len(options.values):
        parser.error(f"--batches has {len(options.batches)} numbers for {len(options.values)} values of {options.key}")
    return options


def launch(options):
    command = ["mpirun", "-n", str(options.ranks)]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    if options.ranks > (os.cpu_count() or 1):
        command.append("--oversubscribe")
    return [*command, options.program, "train", options.deck]


def batch_of(options, value):
    """The overrides that go with a value."""
    if not options.batches:
        return []
    samples = options.batches[options.values.index(value)]
    return [f"train.micro_batch={samples}", f"train.global_batch={samples * options.ranks}"]


def rates(options, value):
    """Items/s and FLOP/s of one run, of all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        command = launch(options)
        for override in [*options.set, *batch_of(options, value), f"{options.key}={value}",
                         f"train.steps={options.steps + 2}",
                         "train.timing_warmup=2", "train.eval_every=0", "checkpoint.every=0", "train.peak_flops=1",
                         f"output.dir={folder}"]:
            command += ["--set", override]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed with code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        report = json.loads(Path(folder, "report.json").read_text())
        items = report.get("tokens_per_second") or report["samples_per_second"]
        return items["median"], report["model_flops_per_second"]


def main():
    options = parse()
    found = {value: [] for value in options.values}
    for turn in range(options.rounds):
        for value in options.values:
            found[value].append(rates(options, value))
        print(f"round {turn + 1} of {options.rounds} done", file=sys.stderr)
    print(f"{options.deck}, {options.ranks} ranks, medians of {options.rounds}")
    print(f"{options.key:<24}{'items/s':>12}{'MFLOP/item':>12}{'GFLOP/s':>12}{'time a FLOP':>14}")
    flops = {value: [pair[1] for pair in pairs] for value, pairs in found.items()}
    first = flops[options.values[0]]
    for value, pairs in found.items():
        items = statistics.median(pair[0] for pair in pairs)
        # By round, as both runs of a round met the same machine.
        cost = statistics.median(a / b for a, b in zip(first, flops[value]))
        print(f"{value:<24}{items:>12.1f}{pairs[0][1] / pairs[0][0] / 1e6:>12.3f}"
              f"{statistics.median(flops[value]) / 1e9:>12.2f}{cost:>14.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps({"found": found, **vars(options)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
