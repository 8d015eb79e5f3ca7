# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that is damaged, of another run, or in the way is refused with the right code and a way on."""

import shutil

import harness

USAGE, ENVIRONMENT = 2, 3
NEWEST, OLDER = "step_00000002.h5", "step_00000001.h5"
EMBEDDING = "/model/transformer.wte.weight"


class RefusedCheckpoints(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.train({"checkpoint.every": 1})
        self.saved = self.folder / "out" / "checkpoints"

    def resume(self, start, changes=None, options=()):
        deck = self.write_deck({"train.steps": 3, **(changes or {})})
        return self.run_program("train", deck, "--resume", start, *options)

    def damaged_copy(self, damage):
        """A copy of the newest checkpoint with what damage(h5py.File) does to it."""
        copy = self.folder / "damaged.h5"
        shutil.copyfile(self.saved / NEWEST, copy)
        with harness.h5py.File(copy, "r+") as file:
            damage(file)
        return copy

    def test_not_a_whole_checkpoint(self):
        whole = (self.saved / NEWEST).read_bytes()
        for content, part in [(whole[:len(whole) // 2], "truncated or damaged"), (whole[:-1], "truncated or damaged"),
                              (b"", "is not an HDF5 file"), (b"step 2", "is not an HDF5 file")]:
            with self.subTest(bytes=len(content)):
                (self.folder / "part.h5").write_bytes(content)
                self.assert_refused(self.resume("part.h5"), ENVIRONMENT, "part.h5", part)
        self.assert_refused(self.resume("none.h5"), ENVIRONMENT, "none.h5", "No such file")
        self.assert_refused(self.resume("."), ENVIRONMENT, ". ")

    @harness.needs_h5py
    def test_foreign_or_altered_file(self):
        def empty(file):
            for name in list(file):
                del file[name]

        def other_version(file):
            file["/state/format_version"][()] = 9

        def one_bit(file):
            value = file[EMBEDDING][3, 5:6]
            file[EMBEDDING][3, 5:6] = (value.view("uint32") ^ 1).view("float32")

        def without_step(file):
            del file["/state/step"]

        def without_tensor(file):
            del file[EMBEDDING]

        for damage, code, part in [(empty, ENVIRONMENT, "is not a Shardmark checkpoint"),
                                   (other_version, ENVIRONMENT, "format version 9; this program reads version 1"),
                                   (one_bit, ENVIRONMENT, "wrong fingerprint of " + EMBEDDING),
                                   (without_step, ENVIRONMENT, "/state/step is missing"),
                                   (without_tensor, USAGE, "missing: " + EMBEDDING)]:
            with self.subTest(damage.__name__):
                self.assert_refused(self.resume(self.damaged_copy(damage)), code, "damaged.h5", part)

    def test_another_run(self):
        for changes, part in [({"model.width": 32}, "model.width = 32 (the checkpoint has 16)"),
                              ({"optimizer.kind": "sgd"}, 'optimizer.kind = "sgd" (the checkpoint has "adamw")'),
                              ({"precision.param": "fp64"}, 'precision.param = "fp64" (the checkpoint has "fp32")'),
                              ({"train.seed": 2}, "train.seed = 2 (the checkpoint has 1)"),
                              ({"data.states": 17}, "data.states = 17 (the checkpoint has 16)")]:
            with self.subTest(part):
                self.assert_refused(self.resume("auto", changes), USAGE, NEWEST, part)
        self.assert_valid(self.resume("auto", {"data.states": 17}, ["--allow-new-data"]))

    def test_fresh_run_into_its_folder(self):
        refused = self.run_program("train", self.write_deck())
        self.assert_refused(refused, USAGE, NEWEST, "--resume auto", "checkpoint.dir")
        self.assertEqual(len(harness.metrics_of(self.folder / "out")), 2, "its metrics are untouched")

    def test_damaged_newest(self):
        with (self.saved / NEWEST).open("r+b") as file:
            file.truncate(5000)
        self.assert_refused(self.resume("auto"), ENVIRONMENT, NEWEST, OLDER + " next: --skip-damaged")
        resumed = self.resume("auto", options=["--skip-damaged"])
        self.assert_valid(resumed)
        self.assertIn(f"passed over: out/checkpoints/{NEWEST} is truncated", "\n".join(resumed.out))
        self.assertIn(f"resumed out/checkpoints/{OLDER} at step 1", resumed.out)

    def test_damaged_and_alone(self):
        (self.saved / OLDER).unlink()
        (self.saved / NEWEST).write_bytes(b"step 2")
        for options in [[], ["--skip-damaged"]]:
            self.assert_refused(self.resume("auto", options=options), ENVIRONMENT, NEWEST, "no older checkpoint")


class OtherStarts(harness.CliTest):
    def test_nothing_to_resume(self):
        ended = self.train(options=["--resume", "auto"])
        self.assertIn("nothing to resume in out/checkpoints: starting at step 0", ended.out)
        self.assertEqual([row["step"] for row in harness.metrics_of(self.folder / "out")], [1, 2])

    def test_other_text_in_the_same_file(self):
        deck = {"data.kind": "bytes", "data.path": ["text"], "model.vocab": 256, "checkpoint.every": 2}
        (self.folder / "text").write_text("the first text " * 20)
        self.train(deck)
        (self.folder / "text").write_text("another text " * 20)
        deck = self.write_deck({**deck, "train.steps": 4})
        refused = self.run_program("train", deck, "--resume", "auto")
        self.assert_refused(refused, USAGE, "step_00000002.h5", "other data", "--allow-new-data")
        self.assert_valid(self.run_program("train", deck, "--resume", "auto", "--allow-new-data"))


if __name__ == "__main__":
    harness.main()
