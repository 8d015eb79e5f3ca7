# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Makes one table of the reports that scaling.sh's jobs left.

Usage: collect.py RESULTS
Reads RESULTS/<series>/nodes_<N>/repeat_<R>/report.json, writes RESULTS/scaling.csv (a row a run) and prints medians
over the repeats, with the efficiency of the rate a node against that on the smallest number of nodes. Exits with 1
where a run has no valid report.
"""

import csv
import json
import pathlib
import statistics
import sys

COLUMNS = ["series", "nodes", "repeat", "ranks", "result", "items_per_second", "step_seconds", "final_loss"]


def number_in(folder):
    return int(folder.name.split("_")[1])


def row_of(repeat):
    """What one run's folder says, by column."""
    row = {"series": repeat.parent.parent.name, "nodes": number_in(repeat.parent), "repeat": number_in(repeat)}
    try:
        report = json.loads((repeat / "report.json").read_text())
    except (OSError, ValueError) as error:
        return {**row, "result": f"no report ({type(error).__name__})"}
    rate = report.get("tokens_per_second") or report.get("samples_per_second") or {}
    return {**row, "ranks": len(report["mesh"]), "result": report["result"], "items_per_second": rate.get("median"),
            "step_seconds": (report.get("step_seconds") or {}).get("median"), "final_loss": report["loss"]["final"]}


def summary(rows):
    """A line for each series and size."""
    lines = [f"{'series':<8}{'nodes':>6}{'ranks':>6}{'runs':>6}{'items/s':>14}{'min':>14}{'max':>14}{'efficiency':>12}"]
    base = {}
    for series, nodes in sorted({(row["series"], row["nodes"]) for row in rows}):
        runs = [row for row in rows if (row["series"], row["nodes"]) == (series, nodes) and row["result"] == "VALID"]
        rates = [row["items_per_second"] for row in runs if row["items_per_second"]]
        if not rates:
            lines.append(f"{series:<8}{nodes:>6}   no valid run with timed steps")
            continue
        median = statistics.median(rates)
        efficiency = median / nodes / base.setdefault(series, median / nodes)
        lines.append(f"{series:<8}{nodes:>6}{runs[0]['ranks']:>6}{len(rates):>6}{median:>14.1f}{min(rates):>14.1f}"
                     f"{max(rates):>14.1f}{efficiency:>12.3f}")
    return lines


def main():
    results = pathlib.Path(sys.argv[1])
    rows = [row_of(folder) for folder in sorted(results.glob("*/nodes_*/repeat_*"))]
    rows.sort(key=lambda row: (row["series"], row["nodes"], row["repeat"]))
    with open(results / "scaling.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print("\n".join(summary(rows)))
    bad = [row for row in rows if row["result"] != "VALID"]
    for row in bad:
        print(f"{row['series']}, {row['nodes']} nodes, repeat {row['repeat']}: {row['result']}")
    return bool(bad) or not rows


if __name__ == "__main__":
    sys.exit(main())
