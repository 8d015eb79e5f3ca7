# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Figures: every point of a run or a benchmark is in the SVG, where its value puts it."""

import importlib.util
import json
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import harness

PLOT = harness.TOP / "scripts" / "plot.py"


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), f"matplotlib is not installed for {sys.executable}")
class Plot(harness.CliTest):
    def plot(self, *arguments):
        return subprocess.run([sys.executable, str(PLOT), *map(str, arguments)], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def lines(self, *arguments):
        """The points of each line of a figure, in units of the page, by the line's name."""
        ended = self.plot(*arguments, "-o", "figure.svg")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        found = {}
        for group in xml.etree.ElementTree.parse(self.folder / "figure.svg").iter():
            path = next((p for p in group if p.tag.endswith("}path")), None)
            uses = [p for p in group.iter() if p.tag.endswith("}use")]
            if not group.tag.endswith("}g") or "id" not in group.attrib or any("x" not in u.attrib for u in uses):
                continue
            if uses:
                found[group.attrib["id"]] = [(float(u.attrib["x"]), float(u.attrib["y"])) for u in uses]
            elif path is not None:
                numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.attrib["d"])]
                found[group.attrib["id"]] = list(zip(numbers[::2], numbers[1::2]))
        return found

    def assert_affine(self, points, values):
        """Heights on the page follow the values, downwards, by one scale."""
        self.assertEqual(len(points), len(values))
        span_y, span_v = points[0][1] - points[-1][1], values[-1] - values[0]
        for (_, y), value in zip(points, values):
            self.assertAlmostEqual((points[0][1] - y) / span_y, (value - values[0]) / span_v, places=3)

    def test_loss(self):
        self.train({"train.steps": 6, "train.eval_every": 3})
        rows = harness.metrics_of(self.folder / "out")
        found = self.lines("loss", "out")
        self.assert_affine(found["out"], [row["loss"] for row in rows])
        self.assertEqual(len(found["out, validation"]), 2)

    def test_scaling(self):
        rows = ["series,nodes,repeat,ranks,result,items_per_second,step_seconds,final_loss"]
        rates = {1: [90, 100, 120], 2: [160, 190, 140], 4: [240, 240, 200]}
        rows += [f"strong,{n},{i},{n},VALID,{rate},1,1" for n in rates for i, rate in enumerate(rates[n])]
        rows.append("strong,4,9,4,INVALID: x,1,1,1")
        (self.folder / "scaling.csv").write_text("\n".join(rows) + "\n")
        self.assert_affine(self.lines("scaling", "scaling.csv")["strong"], [1, 0.8, 0.6])

    def test_comm(self):
        ended = self.run_program("bench", "comm", "--min", "1KiB", "--max", "64KiB", "--json", "comm.json", ranks=2)
        self.assertEqual(ended.codes, [0, 0], ended.stderr)
        rows = json.loads((self.folder / "comm.json").read_text())
        gathers = [row["mpi"]["bus_bytes_per_second"] for row in rows if row["collective"] == "all_gather"]
        self.assert_affine(self.lines("comm", "comm.json")["all_gather, mpi"], gathers)

    def test_errors(self):
        for arguments, said in [(["loss", "nowhere"], "plot.py: nowhere/metrics.jsonl: "),
                                (["scaling", "empty.csv"], "plot.py: nothing to show in empty.csv")]:
            (self.folder / "empty.csv").write_text("series,nodes\n")
            ended = self.plot(*arguments, "-o", "figure.svg")
            self.assertEqual(ended.returncode, 1)
            self.assertTrue(ended.stderr.startswith(said), ended.stderr)
            self.assertFalse((self.folder / "figure.svg").exists())


if __name__ == "__main__":
    harness.main()
