#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Trains one deck in Shardmark and in PyTorch in turn, A B A B, on this machine, and prints rates and ratios.

    scripts/compare_pytorch_speed.py inputs/small.toml --ranks 2 --dtype fp32 --python VENV/bin/python3

Same model, ranks, samples a rank and step (Shardmark in the micro-batches of its deck, PyTorch in --micro-batches),
one thread a rank, AdamW and clipping; PyTorch on gloo, with glibc's malloc tuned so that it keeps its pages. A ratio is
Shardmark's median rate over that of a PyTorch mode, over all rounds.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
MODES = {"ddp": "DDP", "fsdp1": "FSDP FULL_SHARD", "fsdp2": "fully_shard"}
# Pages that were given back would be faulted in again each step.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_MMAP_THRESHOLD_": "100000000000",
          "MALLOC_TOP_PAD_": "268435456"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--strategy", default="zero3", help="of Shardmark")
    parser.add_argument("--set", action="append", default=[], help="more overrides of Shardmark's deck")
    parser.add_argument("--modes", nargs="+", choices=sorted(MODES), default=list(MODES))
    parser.add_argument("--attention", choices=("auto", "math"), default="auto", help="of PyTorch")
    parser.add_argument("--micro-batches", type=int, default=1, help="of PyTorch, a step")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--program", default=str(TOP / "build/shardmark"))
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, numpy and h5py")
    parser.add_argument("--json", help="file for the figures")
    return parser.parse_args()


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run_shardmark(options, deck):
    batch = deck["train"]["global_batch"] // 2 * options.ranks  # decks are made for two ranks
    with tempfile.TemporaryDirectory() as folder:
        command = ["mpirun", "-n", str(options.ranks), options.program, "train", options.deck]
        if os.geteuid() == 0:
            command[1:1] = ["--allow-run-as-root"]
        if options.ranks > (os.cpu_count() or 1):
            command[1:1] = ["--oversubscribe"]
        overrides = [f"parallel.strategy={options.strategy}", f"precision.param={options.dtype}",
                     f"train.steps={options.steps + 2}", "train.timing_warmup=2", f"train.global_batch={batch}",
                     "train.eval_every=0", "checkpoint.every=0", "train.peak_flops=1", f"output.dir={folder}",
                     *options.set]
        for override in overrides:
            command += ["--set", override]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        rate = re.search(r"FOM: \w+_per_second=([\d.]+)", ended.stdout)
        if ended.returncode != 0 or rate is None:
            sys.exit(f"{' '.join(command)}\nfailed with code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return float(rate.group(1))


def run_pytorch(options, mode):
    command = [options.python, "-m", "torch.distributed.run", "--nproc-per-node", str(options.ranks), "--standalone",
               str(TOP / "scripts/pytorch/train_fsdp.py"), options.deck, "--mode", mode, "--dtype", options.dtype,
               "--steps", str(options.steps), "--attention", options.attention,
               "--micro-batches", str(options.micro_batches)]
    ended = subprocess.run(command, env={**environment(), **MALLOC}, capture_output=True, text=True, check=False)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    # PyTorch may abort on leaving, after its figures.
    if not lines:
        sys.exit(f"{' '.join(command)}\nfailed with code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    figures = json.loads(lines[-1])
    return figures["items"] / statistics.median(figures["seconds"]), figures["torch"]


def main():
    options = parse()
    deck = tomllib.loads(Path(options.deck).read_text())
    rates = {"shardmark": []} | {mode: [] for mode in options.modes}
    version = ""
    for turn in range(options.rounds):
        for mode in options.modes:
            rates["shardmark"].append(run_shardmark(options, deck))
            rate, version = run_pytorch(options, mode)
            rates[mode].append(rate)
        print(f"round {turn + 1} of {options.rounds} done", file=sys.stderr)
    ours = statistics.median(rates["shardmark"])
    print(f"{options.deck}, {options.dtype}, {options.ranks} ranks, PyTorch {version} on gloo, {options.micro_batches} "
          "micro-batches of PyTorch a step; items/s of all ranks")
    print(f"{'':<24}{'median':>12}{'min':>12}{'max':>12}{'Shardmark is':>16}")
    for name, values in rates.items():
        label = f"Shardmark {options.strategy}" if name == "shardmark" else f"PyTorch {MODES[name]}"
        median = statistics.median(values)
        ratio = "" if name == "shardmark" else f"{ours / median:.2f} x"
        print(f"{label:<24}{median:>12.1f}{min(values):>12.1f}{max(values):>12.1f}{ratio:>16}")
    if options.json:
        Path(options.json).write_text(json.dumps({"rates": rates, "torch": version, **vars(options)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
