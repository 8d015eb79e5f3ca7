# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that must not pass for good ones: diverged, mixed with another run, or on data that differ by rank."""

import fcntl
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile

import harness

SAVING = {"checkpoint.every": 2, "checkpoint.keep": 0}


class Guards(harness.CliTest):
    def saved(self):
        return harness.checkpoints_of(self.folder / "out" / "checkpoints")

    def test_weights_that_are_not_finite_are_invalid_and_not_saved(self):
        explode = {"train.steps": 1, "schedule.warmup": 0, "schedule.kind": "constant", "optimizer.lr": 1e38}
        for saving in [{}, {"checkpoint.every": 1}]:
            deck = self.write_deck({**explode, **saving})
            ended = self.run_program("train", deck)
            self.assertEqual(ended.codes, [1, 1, 1], ended.stderr)
            self.assertTrue(ended.out[-1].startswith("RESULT: INVALID: weights are not finite"), ended.out[-1])
            self.assertEqual(self.saved(), [])

    def test_losses_that_are_not_finite_are_invalid(self):
        steady = {"schedule.warmup": 0, "schedule.kind": "constant"}
        explode = {**steady, "optimizer.lr": 1e20}
        overflow = {**steady, "precision.param": "fp16", "precision.gemm": "emulated", "precision.loss_scale": 2.0**32}
        skip = {"train.on_nonfinite": "skip"}
        for changes, reason in [
                ({**explode, **skip, "train.steps": 4}, "the loss of the last step is nan"),
                ({**explode, "train.steps": 1, "train.eval_every": 1}, "the validation loss after step 1 is nan"),
                ({**explode, **skip, "train.steps": 3, "train.eval_every": 2}, "the validation loss after step 2 is"),
                ({**overflow, "train.steps": 2}, "all 2 steps were skipped")]:
            for ranks in [1, 3]:
                with self.subTest(reason=reason, ranks=ranks):
                    ended = self.run_program("train", self.write_deck(changes), ranks=ranks)
                    self.assertEqual(ended.codes, [1] * ranks, ended.stderr)
                    self.assertTrue(ended.out[-1].startswith("RESULT: INVALID: " + reason), ended.out[-1])
                    self.assertNotIn("-nan", "\n".join(ended.out))
        rows = harness.metrics_of(self.folder / "out")
        self.assertEqual([(row["skipped"], row["loss_scale"]) for row in rows], [(True, 2.0**32), (True, 2.0**31)])
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertEqual(report["precision"]["loss_scale"], 2.0**30)

    def test_an_invalid_run_reports_in_place_of_an_earlier_one(self):
        self.train()
        deck = self.write_deck({"schedule.warmup": 0, "optimizer.lr": 1e38, "train.steps": 9})
        ended = self.run_program("train", deck)
        self.assertEqual(ended.codes, [1, 1, 1])
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertTrue(report["result"].startswith("INVALID: the loss"), report["result"])
        self.assertEqual(ended.out[-1], "RESULT: " + report["result"])
        self.assertTrue(ended.errors[0].startswith("shardmark: the loss"), ended.errors)

    def test_a_finished_run_started_again_keeps_its_report(self):
        self.train(SAVING)
        report = (self.folder / "out" / "report.json").read_bytes()
        again = self.train(SAVING, ["--resume", "auto"])
        self.assertIn("step 2 of 2 is done already: nothing to train", again.out)
        self.assertEqual((self.folder / "out" / "report.json").read_bytes(), report)

    def test_checkpoints_later_than_the_one_resumed_from_are_set_aside(self):
        self.train({**SAVING, "train.steps": 6})
        first = "out/checkpoints/step_00000002.h5"
        resumed = self.train({**SAVING, "train.steps": 4, "optimizer.lr": 1e-2}, ["--resume", first])
        self.assertEqual(len([line for line in resumed.out if line.startswith("set aside")]), 2)
        self.assertEqual(self.saved(), ["step_00000002.h5", "step_00000004.h5", "step_00000004.h5.abandoned",
                                        "step_00000006.h5.abandoned"])
        last = self.train({**SAVING, "train.steps": 5}, ["--resume", "auto"])
        self.assertIn("resumed out/checkpoints/step_00000004.h5 at step 4", last.out)
        self.assertEqual([row["step"] for row in harness.metrics_of(self.folder / "out")], [1, 2, 3, 4, 5])

    def test_what_was_set_aside_stays_until_it_is_pruned(self):
        first = "out/checkpoints/step_00000002.h5"
        for layout in ["shared_file", "file_per_rank"]:
            with self.subTest(layout):
                self.train({**SAVING, "train.steps": 4, "checkpoint.layout": layout})
                bytes_of = {}
                for turn, suffix in enumerate([".abandoned", ".abandoned.2", ".abandoned.3"]):
                    path = self.folder / "out" / "checkpoints" / "step_00000004.h5"
                    bytes_of[suffix] = path.read_bytes()
                    self.train({**SAVING, "train.steps": 4, "optimizer.lr": 1e-3 * (turn + 2),
                                "checkpoint.layout": layout}, ["--resume", first])
                    for each, content in bytes_of.items():
                        self.assertEqual(path.with_name(path.name + each).read_bytes(), content)
                listed = self.run_program("ckpt", "list", "out/checkpoints", ranks=1).out
                self.assertEqual(len([line for line in listed if " abandoned " in line]), 3)
                self.run_program("ckpt", "prune", "out/checkpoints", "--keep", 2, ranks=1)
                self.assertFalse([name for name in self.saved() if "abandoned" in name])
                shutil.rmtree(self.folder / "out")

    def test_another_run_s_folder_is_left_alone(self):
        for name in ["a", "b"]:
            self.train({**SAVING, "train.seed": ord(name), "train.steps": 4}, cwd=self.folder / name)
        b = self.folder / "b" / "out"
        before = {path: path.read_bytes() for path in b.rglob("*") if path.is_file()}
        deck = self.write_deck({**SAVING, "train.seed": ord("a"), "train.steps": 6, "output.dir": "b/out"})
        ended = self.run_program("train", deck, "--resume", "a/out/checkpoints/step_00000002.h5")
        self.assert_refused(ended, 2, "b/out/checkpoints holds checkpoints already", "of another run")
        self.assertEqual({path: path.read_bytes() for path in b.rglob("*") if path.is_file()}, before)

    def test_a_checkpoint_under_another_step_s_name_is_refused(self):
        self.train({**SAVING, "train.steps": 4})
        saved = self.folder / "out" / "checkpoints"
        (saved / "step_00000004.h5").rename(saved / "step_00000006.h5")
        deck = self.write_deck({**SAVING, "train.steps": 8})
        said = "step_00000006.h5 is named after another step than its own, 4"
        self.assert_refused(self.run_program("train", deck, "--resume", "auto"), 3, said)
        self.assertIn(said, "\n".join(self.run_program("ckpt", "verify", saved, ranks=1).out))
        self.assertIn("damaged", self.run_program("ckpt", "list", saved, ranks=1).out[2])
        (saved / "step_00000006.h5").rename(saved / "best.h5")  # a name that says no step is anyone's
        self.assert_valid(self.run_program("train", deck, "--resume", saved / "best.h5"))

    def test_a_chosen_checkpoint_folder_is_tried_at_the_start(self):
        (self.folder / "file").write_text("")
        deck = self.write_deck({"checkpoint.dir": "file/checkpoints", "train.steps": 1000000})
        self.assert_refused(self.run_program("train", deck), 3, "file/checkpoints")

    @harness.needs_h5py
    def test_a_changed_state_is_damage(self):
        self.train(SAVING)
        path = "out/checkpoints/step_00000002.h5"
        whole = (self.folder / path).read_bytes()
        for name in ["samples_seen", "step", "seed", "data_fingerprint", "loss_scale"]:
            with self.subTest(name):
                (self.folder / path).write_bytes(whole)
                with harness.h5py.File(self.folder / path, "r+") as file:
                    file["state"][name][...] = file["state"][name][()] / 2
                ended = self.run_program("train", "deck.toml", "--resume", "auto", "--set", "train.steps=4")
                self.assert_refused(ended, 3, f"{path} is damaged: /state")

    def test_two_runs_do_not_share_a_folder(self):
        (self.folder / "out").mkdir()
        with open(self.folder / "out" / ".lock", "w", encoding="utf-8") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            deck = self.write_deck()
            self.assert_refused(self.run_program("train", deck), 3, "out: another run is writing to this folder")
        self.train()

    def run_on_two_nodes(self, changes):
        """Two ranks, each in a folder of its own, node0 and node1, as if paths there led to local disks."""
        deck = self.folder / self.write_deck(changes)
        with tempfile.TemporaryDirectory() as notes:
            parts = []
            for rank in range(2):
                folder = self.folder / f"node{rank}"
                folder.mkdir(exist_ok=True)
                program = harness.command(1, harness.NOTE_CODE, notes, ["train", deck])[len(harness.MPIEXEC):]
                parts += [":"] * rank + ["-wdir", str(folder), harness.MPIEXEC[-1], *program]
            ended = subprocess.run([*harness.MPIEXEC[:-1], *parts], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=harness.environment(), timeout=harness.LONGEST_RUN, check=False)
            codes = [int(file.read_text()) for file in pathlib.Path(notes).iterdir()]
        self.assertEqual(codes, [3, 3], ended.stdout + ended.stderr)
        return ended.stderr

    def test_ranks_that_see_other_data_than_rank_0_are_named(self):
        for rank, text in enumerate([b"a" * 400, b"b" * 400]):
            folder = self.folder / f"node{rank}"
            folder.mkdir()
            (folder / "d.txt").write_bytes(text)
        changes = {"data.kind": "bytes", "data.path": "d.txt", "model.vocab": 256,
                   "output.dir": str(self.folder / "out")}
        self.assertIn("rank 1 sees other data than rank 0", self.run_on_two_nodes(changes))

    def test_a_folder_that_ranks_do_not_share_is_refused(self):
        shared = {"output.dir": str(self.folder / "out")}
        unshared = f"rank 1 on host {socket.gethostname()} does not see what rank 0 wrote there"
        self.assertIn(f"out: {unshared}", self.run_on_two_nodes({"output.dir": "out"}))
        self.assertIn(f"saved: {unshared}", self.run_on_two_nodes(
            {**shared, "checkpoint.dir": "saved", "checkpoint.every": 1}))
        self.assertFalse((self.folder / "node0" / "out" / ".token").exists())

    def test_output_that_is_lost_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ended = subprocess.run([harness.PROGRAM, "info"], stdout=full, stderr=subprocess.PIPE, text=True,
                                   env=harness.environment(), check=False)
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("standard output can't be written to", ended.stderr)


if __name__ == "__main__":
    harness.main()
