# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Saves behind the training, resuming in another precision, and the benchmark of storage."""

import json
import subprocess

import harness

SAVING = {"train.steps": 12, "checkpoint.every": 3, "checkpoint.keep": 0, "train.timing_warmup": 0}
SAVED = [f"step_{step:08}.h5" for step in (3, 6, 9, 12)]


class Async(harness.CliTest):
    def report(self, run):
        return json.loads((self.folder / run / "out" / "report.json").read_text())

    @harness.needs_tools
    def test_the_files_are_those_of_saves_that_training_waits_for(self):
        for layout in ["shared_file", "file_per_rank"]:
            with self.subTest(layout):
                changes = {**SAVING, "checkpoint.layout": layout, "parallel.strategy": "hybrid",
                           "parallel.shard_size": 1}
                waited, behind = layout + "-waited", layout + "-behind"
                self.train(changes, cwd=self.folder / waited)
                ended = self.train({**changes, "checkpoint.async": True}, cwd=self.folder / behind)
                for name in SAVED:
                    files = [self.folder / run / "out" / "checkpoints" / name for run in (waited, behind)]
                    compared = subprocess.run(
                        ["h5diff", "--exclude-path=/run", "--exclude-path=/state/deck", "--exclude-path=/state/digest",
                         *files], stdout=subprocess.PIPE, text=True, check=False)
                    self.assertEqual(compared.returncode, 0, compared.stdout)
                self.assertEqual(sum(line.startswith("saved ") for line in ended.out), 4)
                self.assertTrue(any(line.startswith("saves: 4 in ") for line in ended.out), ended.out)

                one, other = self.report(waited), self.report(behind)
                self.assertEqual([one["checkpoint"]["async"], other["checkpoint"]["async"]], [False, True])
                self.assertEqual(one["loss"], other["loss"])
                self.assertIsNone(one["checkpoint"]["step_seconds_beside_save"])
                steps = other["checkpoint"]
                self.assertEqual(steps["saves"], 4)
                self.assertGreater(steps["step_seconds_beside_save"]["count"], 0)
                self.assertEqual(steps["step_seconds_beside_save"]["count"] + steps["step_seconds_alone"]["count"], 12)
                memory = other["memory_rank0_bytes"]
                self.assertEqual(memory["predicted"]["checkpoint"], memory["measured_peak"]["checkpoint"])
                self.assertGreater(memory["predicted"]["checkpoint"], 3 * 4 * other["parameters"] / 3)
                self.assertEqual(one["memory_rank0_bytes"]["measured_peak"]["checkpoint"], 0)

    def test_other_precisions_go_on_and_double_does_not(self):
        changes = {**SAVING, "precision.gemm": "emulated"}
        self.train({**changes, "train.steps": 3, "precision.param": "bf16"})
        self.train({**changes, "train.steps": 6, "precision.param": "fp16"}, ["--resume", "auto"])
        deck = self.write_deck({**SAVING, "precision.param": "fp64"})
        self.assert_refused(self.run_program("train", deck, "--resume", "auto"), 2, 'precision.param = "fp64"',
                            'the checkpoint has "fp16"', "fp64 from fp64 alone")
        self.train({**SAVING, "train.steps": 9, "precision.param": "fp32"}, ["--resume", "auto"])
        self.assertEqual([row["step"] for row in harness.metrics_of(self.folder / "out")], list(range(1, 10)))

    def test_bench_io(self):
        deck = self.write_deck({"checkpoint.every": 1})
        ended = self.run_program("bench", "io", deck, "--repeats", "2", "--json", "io.json", "--alignment", "4096",
                                 "--no-fsync", "--mpi-info", "cb_nodes=1")
        self.assertEqual((ended.codes, ended.errors), ([0, 0, 0], []), ended.stderr)
        self.assertIn("3 ranks, fsync off, alignment 4096", "\n".join(ended.out))
        figures = json.loads((self.folder / "io.json").read_text())
        self.assertEqual(figures["bytes"], 3 * 4 * 4080)
        self.assertEqual([way["name"] for way in figures["ways"]],
                         ["plain files", "shared_file, independent", "shared_file, collective", "file_per_rank"])
        for way in figures["ways"]:
            self.assertEqual([len(way["write"]), len(way["read"])], [2, 2])
            self.assertGreater(min(turn["seconds"] for turn in way["write"] + way["read"]), 0)
        self.assertEqual(list((self.folder / "out").iterdir()), [])

        (self.folder / "out" / "bench_io").mkdir()
        self.assert_refused(self.run_program("bench", "io", deck), 3, "out/bench_io is in the way")


if __name__ == "__main__":
    harness.main()
