# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up ends the run on every rank with code 3, and the run goes on once there is room."""

import itertools
import os
import subprocess

import harness

ENVIRONMENT = 3
FIRST, SECOND, PARTIAL = "step_00000001.h5", "step_00000002.h5", ".step_00000002.h5.partial"
CHANGES = {"model.layers": 2, "model.width": 96, "checkpoint.every": 1, "checkpoint.keep": 0, "checkpoint.dir": "disk"}


class FullDisk(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", self.disk], check=False, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if mounted.returncode != 0:
            self.skipTest("no file system of 8 MB: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.disk], check=True)

    def free(self):
        status = os.statvfs(self.disk)
        return status.f_bavail * status.f_frsize

    def fill(self, left):
        (self.disk / "ballast").write_bytes(bytes(self.free() - left))

    def go_on(self, transfer, check, behind):
        deck = self.write_deck({**CHANGES, "train.steps": 2, "checkpoint.transfer": transfer,
                                "checkpoint.check_free_space": check, "checkpoint.async": behind})
        return self.run_program("train", deck, "--resume", "auto")

    def test_save_fails_and_the_one_before_is_whole(self):
        self.train({**CHANGES, "train.steps": 1})
        size = (self.disk / FIRST).stat().st_size
        self.assertGreater(size, 2e6)
        for transfer, check, behind in itertools.product(["independent", "collective"], [True, False], [False, True]):
            with self.subTest(transfer=transfer, check=check, behind=behind):
                self.fill(left=size // 2)
                failed = self.go_on(transfer, check, behind)
                self.assert_refused(failed, ENVIRONMENT, "the checkpoint needs" if check else PARTIAL, "bytes", "disk")
                self.assertIn("resumed disk/" + FIRST + " at step 1", failed.out)
                expected = {"ballast", FIRST} | (set() if check else {PARTIAL})
                self.assertEqual(set(harness.checkpoints_of(self.disk)), expected)

                (self.disk / "ballast").unlink()
                resumed = self.go_on(transfer, check, behind)
                self.assert_valid(resumed)
                self.assertIn("resumed disk/" + FIRST + " at step 1", resumed.out)
                self.assertEqual(harness.checkpoints_of(self.disk), [FIRST, SECOND])
                (self.disk / SECOND).unlink()

    def test_bench_io_leaves_nothing_behind(self):
        deck = self.write_deck(CHANGES)
        self.fill(left=1000000)
        ended = self.run_program("bench", "io", deck, "--repeats", "1", "--folder", "disk")
        self.assertEqual((ended.codes, len(ended.errors)), ([ENVIRONMENT] * 3, 1), ended.stderr)
        self.assertEqual(harness.checkpoints_of(self.disk), ["ballast"])
        (self.disk / "ballast").unlink()
        self.assertEqual(self.run_program("bench", "io", deck, "--repeats", "1", "--folder", "disk").codes, [0, 0, 0])


class ShortSharedMemory(harness.CliTest):
    def test_is_an_error_and_no_hang(self):
        if not harness.is_open_mpi():
            self.skipTest("where another MPI keeps windows is not known")
        deck = self.write_deck({"model.width": 256, "comm.backend": "node"})
        # Too little for the first window, and for one of the later ones, which nearly fits.
        for size in ("256k", "5m", "6m", "7m", "8m"):
            with self.subTest(size):
                self.train_in(size, deck)

    def train_in(self, size, deck):
        small = self.folder / f"shm-{size}"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", small], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no file system of this size")
        self.addCleanup(subprocess.run, ["umount", "--lazy", small], check=True)
        os.environ["OMPI_MCA_osc_sm_backing_directory"] = str(small)
        self.addCleanup(os.environ.pop, "OMPI_MCA_osc_sm_backing_directory", None)
        ended = self.run_program("train", deck)
        self.assertEqual((ended.codes, len(ended.errors)), ([ENVIRONMENT] * 3, 1), ended.stderr)
        self.assertIn("shared memory of this node is short", ended.errors[0])


if __name__ == "__main__":
    harness.main()
