#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of what runs and benchmarks leave, as SVG, PNG or PDF by the name of the output file.

    scripts/plot.py loss runs/tiny runs/small -o loss.svg            # metrics.jsonl of any number of runs
    scripts/plot.py scaling RESULTS/scaling.csv -o scaling.svg       # what scripts/slurm/scaling.sh gathered
    scripts/plot.py comm comm.json -o comm.svg                       # shardmark bench comm --json comm.json

Needs matplotlib (Debian: python3-matplotlib).
"""

import argparse
import collections
import csv
import json
import statistics
import sys
from pathlib import Path

try:
    import matplotlib
except ImportError:
    sys.exit("plot.py: matplotlib was not found: install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def read(path, parse):
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"plot.py: {path}: {error}")


def curve(axes, name, points, style):
    """A line through (x, y) pairs; its name is also the id in an SVG."""
    if points:
        axes.plot(*zip(*sorted(points)), style, label=name, gid=name)


def plot_loss(axes, runs):
    """Training loss by step, validation loss as dots."""
    for run in runs:
        rows = read(Path(run) / "metrics.jsonl", lambda text: [json.loads(line) for line in text.splitlines()])
        curve(axes, run, [(row["step"], row["loss"]) for row in rows if row["loss"] is not None], "-")
        curve(axes, f"{run}, validation",
              [(row["step"], row["validation_loss"]) for row in rows if row.get("validation_loss") is not None], "o")
    axes.set(xlabel="step", ylabel="loss")


def plot_scaling(axes, files):
    """Efficiency of the rate a node against the smallest number of nodes, medians over the repeats."""
    for file in files:
        rates = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in read(file, lambda text: list(csv.DictReader(text.splitlines()))):
            if row["result"] == "VALID" and row["items_per_second"]:
                rates[row["series"]][int(row["nodes"])].append(float(row["items_per_second"]))
        for series, by_nodes in rates.items():
            per_node = {nodes: statistics.median(values) / nodes for nodes, values in by_nodes.items()}
            base = per_node[min(per_node)]
            curve(axes, series, [(nodes, rate / base) for nodes, rate in per_node.items()], "o-")
    axes.set(xlabel="nodes", ylabel="efficiency", ylim=(0, None))
    axes.set_xscale("log", base=2)


def plot_comm(axes, files):
    """Bus bandwidth by size, a line for each collective and back end."""
    for file in files:
        lines = collections.defaultdict(list)
        for row in read(file, json.loads):
            for name, figures in row.items():
                if isinstance(figures, dict) and "bus_bytes_per_second" in figures:
                    point = (row["bytes"], figures["bus_bytes_per_second"] / 1e9)
                    lines[f"{row['collective']}, {name}"].append(point)
        for name, points in lines.items():
            curve(axes, name, points, "o-")
    axes.set(xlabel="bytes", ylabel="bus bandwidth, GB/s")
    axes.set_xscale("log", base=2)


FIGURES = {"loss": plot_loss, "scaling": plot_scaling, "comm": plot_comm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    FIGURES[options.figure](axes, options.inputs)
    if not axes.lines:
        sys.exit(f"plot.py: nothing to show in {', '.join(options.inputs)}")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(options.output)
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: {options.output}: {error}")


if __name__ == "__main__":
    main()
