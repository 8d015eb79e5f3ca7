# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A job in which one rank hangs, stops or dies ends by itself, and every living rank says where it stood."""

import os
import re
import subprocess
import unittest

import harness

STALL = os.environ.get("SHARDMARK_STALL", str(harness.TOP / "build" / "tests" / "cli" / "stall"))
LINE = re.compile(r'rank (\d+) on host \S+: stalled for [\d.]+ s in phase "(\w+)"(?: \(unit (\d+)\))? of step (\d+)')


class Watchdog(unittest.TestCase):
    def stall(self, how, progress, ranks=3, timeout=1.0):
        """The launcher's exit code, what every rank that spoke said, and all output."""
        started = subprocess.run([*harness.MPIEXEC, str(ranks), STALL, how, progress, str(timeout)], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=harness.environment(),
                                 timeout=harness.LONGEST_RUN, check=False)
        said = {int(rank): (phase, unit, step) for rank, phase, unit, step in LINE.findall(started.stdout)}
        return started.returncode, said, started.stdout

    def for_both(self, check):
        for progress in ["wait", "worker"]:
            with self.subTest(progress):
                check(progress)

    def test_a_job_that_goes_on_is_left_alone(self):
        def check(progress):
            code, said, output = self.stall("not", progress, timeout=60)
            self.assertEqual((code, said), (0, {}), output)
            self.assertIn("ended", output)
        self.for_both(check)

    def test_a_rank_that_sleeps_is_named_with_those_that_wait_for_it(self):
        def check(progress):
            code, said, output = self.stall("sleep", progress)
            self.assertEqual(code, 3, output)
            waiting = ("reduce", "2", "4")
            self.assertEqual(said, {0: waiting, 1: ("forward", "0", "4"), 2: waiting}, output)
        self.for_both(check)

    def test_a_rank_that_is_stopped_is_told_by_the_others(self):
        def check(progress):
            code, said, output = self.stall("stop", progress)
            self.assertEqual(code, 3, output)
            self.assertEqual(said, {rank: ("reduce", "2", "4") for rank in [0, 2]}, output)
        self.for_both(check)

    def test_a_rank_that_dies_ends_the_job(self):
        def check(progress):
            code, _, output = self.stall("die", progress, timeout=60)
            self.assertNotEqual(code, 0, output)
            self.assertNotIn("ended", output)
        self.for_both(check)

    def test_a_job_that_cannot_be_ended_in_order_is_left(self):
        code, said, output = self.stall("unkillable", "wait")
        self.assertEqual(code, 3, output)
        self.assertEqual(set(said), {0, 1, 2}, output)
        self.assertIn("the job does not end; leaving", output)


if __name__ == "__main__":
    harness.main()
