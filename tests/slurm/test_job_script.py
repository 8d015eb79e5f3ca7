# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""What the job scripts decide, without Slurm: its commands are stand-ins, the ranks are real and started by mpirun."""

import os
import signal
import subprocess
import sys
import pathlib
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import harness  # pylint: disable=wrong-import-position

SCRIPTS = harness.TOP / "scripts" / "slurm"
ENDLESS = {"train.steps": 1000000, "schedule.kind": "constant"}


@harness.unittest.skipUnless(harness.is_open_mpi(), "only Open MPI's mpirun passes SIGUSR1 on")
class JobScript(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.calls = self.folder / "calls"
        self.stub("squeue", "echo N/A")
        self.stub("scontrol", f'echo "$*" >> {self.calls}')
        self.stub("mpirun", f'exec {harness.MPIEXEC[0]} "$@"')
        self.output = self.folder / "run"

    def stub(self, name, body):
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def start(self, script="train.sbatch", deck="deck.toml", **changes):
        environment = {**harness.environment(), "PATH": f"{self.bin}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                       "SLURM_JOB_NAME": "test", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS_PER_NODE": "2",
                       "OUTPUT": str(self.output), "LAUNCHER": "mpirun", "SHARDMARK_PROGRAM": harness.PROGRAM,
                       "LAUNCHER_FLAGS": " ".join(harness.MPIEXEC[1:-1]), "SHARDMARK_TOP": str(harness.TOP),
                       "SHARDMARK_SITE": str(self.folder / "site.conf"), **changes}
        started = subprocess.Popen(["bash", SCRIPTS / script, self.folder / deck], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)
        self.addCleanup(started.kill)
        return started

    def end(self, started):
        """Exit code, output, and what scontrol was asked for."""
        out = started.communicate(timeout=harness.LONGEST_RUN)[0]
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return started.returncode, out, calls

    def signal_after_steps(self, started, number, steps=5):
        """To the script's shell alone, as Slurm does with B:USR1."""
        end = time.monotonic() + harness.LONGEST_RUN
        metrics = self.output / "metrics.jsonl"
        while not metrics.exists() or len(metrics.read_text().splitlines()) < steps:
            self.assertIsNone(started.poll(), "it ended before it was signalled")
            self.assertLess(time.monotonic(), end, "no steps")
            time.sleep(0.01)
        started.send_signal(number)
        return self.end(started)

    def saved_step(self):
        return int(harness.checkpoints_of(self.output / "checkpoints")[-1][5:13])

    def test_links_until_the_training_is_done(self):
        self.write_deck(ENDLESS)
        code, out, calls = self.signal_after_steps(self.start(), signal.SIGUSR1)
        self.assertEqual((code, calls), (75, ["requeue 7"]), out)
        step = self.saved_step()
        self.assertEqual(len(harness.metrics_of(self.output)), step)
        self.assertIn(f"RESULT: STOPPED step={step}", out)

        self.stub("squeue", 'date --date="6 seconds" +%Y-%m-%dT%H:%M:%S')
        code, out, calls = self.end(self.start(SLURM_RESTART_COUNT="1"))
        self.assertEqual((code, calls), (75, ["requeue 7"]), out)
        self.assertIn(f"at step {step}", out)
        self.assertIn("stopping: deadline", out)
        self.assertGreater(self.saved_step(), step)

        self.stub("squeue", "echo N/A")
        self.write_deck({**ENDLESS, "train.steps": self.saved_step() + 5})
        code, out, calls = self.end(self.start(SLURM_RESTART_COUNT="2"))
        self.assertEqual((code, calls), (0, []), out)
        self.assertIn("link 3 of job 7", out)
        self.assertIn("RESULT: VALID", out)

    def test_a_cancelled_job_is_not_queued_again(self):
        self.write_deck(ENDLESS)
        code, out, calls = self.signal_after_steps(self.start(), signal.SIGTERM)
        self.assertEqual((code, calls), (75, []), out)
        self.assertIn("stopping: SIGUSR1", out, "mpirun got no SIGTERM, at which it would kill the ranks")
        self.assertEqual(len(harness.metrics_of(self.output)), self.saved_step())

    def test_a_link_that_gains_nothing_is_the_last(self):
        self.write_deck(ENDLESS)
        self.stub("squeue", "date +%Y-%m-%dT%H:%M:%S")
        code, out, calls = self.end(self.start())
        self.assertEqual((code, calls), (75, []), out)
        self.assertIn("no step was gained", out)

    def test_links_are_limited(self):
        self.write_deck(ENDLESS)
        code, out, calls = self.signal_after_steps(self.start(SLURM_RESTART_COUNT="1", MAX_LINKS="2"), signal.SIGUSR1)
        self.assertEqual((code, calls), (75, []), out)
        self.assertIn("MAX_LINKS=2", out)

    def test_an_array_task_has_its_own_name_and_folder(self):
        self.write_deck(ENDLESS)
        base = self.output
        self.output = base / "repeat_3"
        array = {"OUTPUT": str(base), "SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "3"}
        code, out, calls = self.signal_after_steps(self.start(**array), signal.SIGUSR1)
        self.assertEqual((code, calls), (75, ["requeue 6_3"]), out)

    def test_the_site_file_is_read_and_errors_pass_through(self):
        (self.folder / "site.conf").write_text(f"touch {self.folder}/was_read; false; echo $unset; MAX_LINKS=1\n")
        self.write_deck({"model.layers": 0})
        code, out, calls = self.end(self.start())
        self.assertEqual((code, calls), (2, []), out)
        self.assertIn("model.layers", out)
        self.assertTrue((self.folder / "was_read").exists())
        code, out, _ = self.end(self.start(LAUNCHER="rsh"))
        self.assertEqual(code, 2)
        self.assertIn("valid: srun, mpirun", out)

    def test_gpus(self):
        self.write_deck()
        self.stub("srun", f'echo "$*" > {self.folder}/srun')
        gpu = {"script": "train_gpu.sbatch", "LAUNCHER": "srun", "LAUNCHER_FLAGS": "", "SLURM_CPUS_PER_TASK": "8"}
        code, out, _ = self.end(self.start(**gpu, SLURM_GPUS_ON_NODE="4"))
        self.assertEqual(code, 2)
        self.assertIn("2 ranks and 4 GPUs a node", out)
        code, out, _ = self.end(self.start(**gpu, SLURM_GPUS_ON_NODE="2", SLURM_JOB_NUM_NODES="3"))
        self.assertEqual(code, 0, out)
        said = (self.folder / "srun").read_text()
        self.assertTrue(said.startswith("--ntasks=6 --cpus-per-task=8 --cpu-bind=cores --gpu-bind=none "), said)
        self.assertIn("--resume auto", said)


if __name__ == "__main__":
    harness.main()
