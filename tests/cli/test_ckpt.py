# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""shardmark ckpt: list, show, verify, diff, convert and prune, on whole and on damaged checkpoints of both layouts."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import harness

NAMES = [f"step_{step:08}.h5" for step in (1, 2, 3)]
EMBEDDING = "/model/transformer.wte.weight"
RANK_FILE = "step_00000002.shards/rank_00001.h5"


class Ckpt(harness.CliTest):
    trained = None  # a folder with three checkpoints, of which each test has a copy

    def setUp(self):
        super().setUp()
        if not Ckpt.trained:
            Ckpt.trained = tempfile.TemporaryDirectory()
            self.train({"train.steps": 3, "checkpoint.every": 1, "checkpoint.keep": 0}, cwd=Ckpt.trained.name)
        self.saved = self.folder / "out" / "checkpoints"
        shutil.copytree(pathlib.Path(Ckpt.trained.name, "out"), self.folder / "out")

    def ckpt(self, *arguments, code=0):
        """The lines of standard output; the program runs without a launcher and ends with this code."""
        ended = subprocess.run([harness.PROGRAM, "ckpt", *map(str, arguments)], cwd=self.folder, text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(),
                               timeout=harness.LONGEST_RUN)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        self.assertEqual(len(ended.stderr.splitlines()), code in (2, 3), ended.stderr)
        return ended.stdout.splitlines() + ended.stderr.splitlines()

    def convert(self, name, folder, *options, layout="file_per_rank"):
        self.ckpt("convert", self.saved / name, folder, "--layout", layout, *options)
        return self.folder / folder / name

    def listed(self, folder):
        entries = json.loads("\n".join(self.ckpt("list", folder, "--json")))
        return [(entry["file"], entry["layout"], entry["ranks"], entry["state"]) for entry in entries]

    def flip(self, path, position):
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)

    def place_of(self, path, dataset):
        """Where the elements of a contiguous dataset begin in the file."""
        with harness.h5py.File(path) as file:
            return file[dataset].id.get_offset()

    def assert_damaged(self, path, *parts):
        out = self.ckpt("verify", path, code=1)
        self.assertEqual(len(out), 1, out)
        for part in parts:
            self.assertIn(part, out[0])

    def test_list_and_show(self):
        indexed = self.convert(NAMES[1], "rank_files")
        shutil.copyfile(self.saved / NAMES[0], indexed.with_name(NAMES[0]))
        indexed.with_name(NAMES[2]).write_bytes((self.saved / NAMES[2]).read_bytes()[:-8])
        indexed.with_name("step_00000009.shards").mkdir()
        indexed.with_name(".step_00000010.h5.partial").write_bytes(b"begun")
        self.assertEqual(self.listed("rank_files"), [
            (NAMES[0], "shared_file", 3, "complete"), (NAMES[1], "file_per_rank", 3, "complete"),
            (NAMES[2], "", None, "damaged"), (".step_00000010.h5.partial", "", None, "partial"),
            ("step_00000009.shards", "", None, "partial")])
        table = self.ckpt("list", "rank_files")
        self.assertEqual(table[2].split()[0], "2")
        self.assertEqual(table[2].split()[2:], ["file_per_rank", "3", "zero3", "complete", NAMES[1]])
        size = indexed.stat().st_size + sum(path.stat().st_size for path in indexed.with_suffix(".shards").iterdir())
        self.assertEqual(int(table[2].split()[1]), size)

        shown = self.ckpt("show", indexed)
        self.assertEqual(shown[1:], self.ckpt("show", self.saved / NAMES[1])[1:])
        self.assertIn(["fp32", "(32,", "16)"], [line.split()[:3] for line in shown if line.endswith(EMBEDDING)])
        for line in ["48 tensors, 12240 elements", "[train]"]:
            self.assertIn(line, shown)
        self.assertIn(["/state/step", "2"], [line.split() for line in shown])
        self.ckpt("list", self.folder / "nowhere", code=3)
        (self.folder / "empty").mkdir()
        self.assertEqual(self.ckpt("list", "empty"), ["no checkpoints in empty"])

    def test_convert_and_back(self):
        for ranks in [1, 2, 5]:
            indexed = self.convert(NAMES[1], f"on{ranks}", "--ranks", ranks)
            self.assertEqual(len(list(indexed.with_suffix(".shards").iterdir())), ranks)
            self.assertIn("complete", self.ckpt("verify", indexed)[0])
            again = self.folder / f"back{ranks}" / NAMES[1]
            self.ckpt("convert", indexed, again.parent, "--layout", "shared_file")
            self.assertEqual(self.ckpt("show", again), self.ckpt("show", self.saved / NAMES[1]))
            self.assertIn("0 of 48 tensors differ", self.ckpt("diff", again, self.saved / NAMES[1])[-1])
            self.ckpt("convert", indexed, again.parent, "--layout", "shared_file", code=2)
        self.ckpt("convert", indexed, "elsewhere", "--layout", "shared_file", "--ranks", 2, code=2)

    def test_resume_from_rank_files(self):
        whole = self.folder / "whole"
        self.train({"train.steps": 4, "checkpoint.every": 4}, cwd=whole)
        indexed = self.convert(NAMES[2], "elsewhere", "--ranks", 4)
        deck = self.write_deck({"train.steps": 4, "checkpoint.every": 4, "output.dir": "resumed"})
        self.assert_valid(self.run_program("train", deck, "--resume", indexed))
        last = "checkpoints/step_00000004.h5"
        self.assertIn("0 of 48", self.ckpt("diff", self.folder / "resumed" / last, whole / "out" / last)[-1])
        (self.folder / "elsewhere" / "step_00000003.shards" / "rank_00003.h5").unlink()
        refused = self.run_program("train", deck, "--resume", indexed, "--set", "output.dir=other")
        self.assert_refused(refused, 3, "rank_00003.h5", "No such file")

    def test_diff(self):
        out = self.ckpt("diff", self.saved / NAMES[0], self.saved / NAMES[1], code=1)
        self.assertEqual(len(out), 49)
        self.assertRegex(out[-1], "^48 of 48 tensors differ")
        most = float(out[-1].split()[-1])
        self.assertGreater(most, 0)
        self.ckpt("diff", self.saved / NAMES[0], self.saved / NAMES[1], "--tolerance", most * 1.01)
        self.ckpt("diff", self.saved / NAMES[0], self.saved / NAMES[1], "--tolerance", most * 0.99, code=1)
        self.ckpt("diff", self.saved / NAMES[0], self.folder / "none.h5", code=3)
        wide = self.folder / "wide"
        self.train({"model.width": 32, "checkpoint.every": 2, "model.tie_embeddings": False}, cwd=wide)
        out = self.ckpt("diff", self.saved / NAMES[1], wide / "out/checkpoints" / NAMES[1], code=1)
        self.assertIn(EMBEDDING + ": float32 (32, 16) and float32 (32, 32)", out)
        self.assertTrue(any(line.startswith("/model/lm_head.weight: only in ") for line in out), out)

    @harness.needs_h5py
    def test_one_element_that_differs(self):
        changed = self.folder / "changed.h5"
        shutil.copyfile(self.saved / NAMES[1], changed)
        with harness.h5py.File(changed, "r+") as file:
            file[EMBEDDING][3, 5] += 0.25
            file[EMBEDDING][4, 1] = float("nan")
        out = self.ckpt("diff", self.saved / NAMES[1], changed, "--tolerance", 10, code=1)
        self.assertEqual(out[0], EMBEDDING + ": 1 of 512 elements differ, by nan at most")
        self.assert_damaged(changed, "changed.h5 is damaged: wrong fingerprint of " + EMBEDDING)

    @harness.needs_h5py
    def test_verify_names_what_is_damaged(self):
        self.assertEqual(len(self.ckpt("verify", self.saved)), 3)
        shared = self.folder / "copy.h5"
        shutil.copyfile(self.saved / NAMES[1], shared)
        self.flip(shared, self.place_of(shared, "/optimizer/exp_avg/transformer.ln_f.bias") + 5)
        self.assert_damaged(shared, "copy.h5", "wrong fingerprint of /optimizer/exp_avg/transformer.ln_f.bias")
        shutil.copyfile(self.saved / NAMES[1], shared)
        self.flip(shared, self.place_of(shared, "/state/samples_seen"))
        self.assert_damaged(shared, "copy.h5", "/state does not have the digest")
        os.truncate(shared, shared.stat().st_size // 2)
        self.assert_damaged(shared, "copy.h5", "truncated")

        indexed = self.convert(NAMES[1], "rank_files")
        victim = indexed.parent / RANK_FILE
        whole = victim.read_bytes()
        self.flip(victim, self.place_of(victim, EMBEDDING))
        self.assert_damaged(indexed, RANK_FILE + " is damaged: wrong fingerprint of " + EMBEDDING)
        self.assert_damaged(indexed.parent, RANK_FILE, EMBEDDING)
        victim.write_bytes(whole[:-1])
        self.assert_damaged(indexed, RANK_FILE + " is truncated")
        shutil.copyfile(indexed.parent / "step_00000002.shards/rank_00002.h5", victim)
        self.assert_damaged(indexed, RANK_FILE)
        victim.unlink()
        self.assert_damaged(indexed, RANK_FILE, "No such file")
        self.assertEqual(self.listed("rank_files"), [(NAMES[1], "file_per_rank", 3, "damaged")])
        victim.write_bytes(whole)
        self.assertIn("complete", self.ckpt("verify", indexed)[0])
        self.flip(indexed, indexed.read_bytes().index(b"rank_00001.h5"))
        self.assert_damaged(indexed, NAMES[1], "digest at its end")

    def test_verify_what_cannot_be_read(self):
        (self.folder / "text.h5").write_text("no checkpoint")
        for path in ["none.h5", "text.h5"]:
            self.assertIn(path, self.ckpt("verify", path, code=3)[0])
        shutil.copyfile(self.folder / "text.h5", self.saved / NAMES[1])
        out = self.ckpt("verify", self.saved, code=1)
        self.assertIn(NAMES[1] + " is not an HDF5 file", out[1])

    def test_prune(self):
        os.truncate(self.saved / NAMES[2], 4000)
        out = self.ckpt("prune", self.saved, "--keep", 1)
        self.assertEqual(out, [f"removed {self.saved / NAMES[0]}", "removed 1 checkpoints"])
        self.assertEqual(harness.checkpoints_of(self.saved), NAMES[1:])
        for name in NAMES[1:2]:
            self.convert(name, "rank_files")
        shutil.copyfile(self.saved / NAMES[1], self.folder / "rank_files" / NAMES[2])
        self.ckpt("prune", "rank_files", "--keep", 1)
        # The newest one stays because it is that, the other because it is the newest that is whole.
        self.assertEqual(harness.checkpoints_of(self.folder / "rank_files"),
                         [NAMES[1], NAMES[1].replace("h5", "shards"), NAMES[2]])

    def test_arguments(self):
        for arguments in [[], ["list"], ["prune", "out"], ["prune", "out", "--keep", "0"], ["check"],
                          ["convert", self.saved / NAMES[0], "x", "--layout", "other"],
                          ["diff", NAMES[0], NAMES[1], "--tolerance", "-1"]]:
            self.ckpt(*arguments, code=2)
        self.assertIn("  convert ", "\n".join(self.ckpt("--help")))
        self.assertIn("--tolerance", "\n".join(self.ckpt("diff", "--help")))
        self.assert_refused(self.run_program("ckpt", "list", self.saved), 2, "without mpirun")


if __name__ == "__main__":
    harness.main()
