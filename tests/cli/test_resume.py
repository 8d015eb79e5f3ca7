# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Stopped and resumed, a run gives the numbers of one that was never stopped."""

import math
import os
import signal
import subprocess
import time

import harness

SAVING = {"train.steps": 20, "checkpoint.every": 10, "checkpoint.keep": 0, "train.eval_every": 5}
MIDDLE, LAST = "step_00000010.h5", "step_00000020.h5"
NUMBERS = ["step", "loss", "lr", "grad_norm", "tokens"]


def numbers(folder):
    """What metrics.jsonl says but for times, by step."""
    return {row["step"]: [row.get(name) for name in [*NUMBERS, "validation_loss"]]
            for row in harness.metrics_of(folder / "out")}


@harness.needs_tools
class Resume(harness.CliTest):
    def saved(self, run, name):
        return self.folder / run / "out" / "checkpoints" / name

    def assert_same_file(self, one, other, apart_from=("/run",)):
        left_out = [f"--exclude-path={path}" for path in apart_from]
        ended = subprocess.run(["h5diff", "-v", *left_out, one, other], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(ended.returncode, 0, "\n".join(ended.stdout.splitlines()[-20:]))
        self.assertIn("/optimizer/exp_avg_sq/transformer.wte.weight", ended.stdout)

    def copy_middle(self, source, target):
        """A run's folder as it was after step 10."""
        self.saved(target, MIDDLE).parent.mkdir(parents=True)
        self.saved(target, MIDDLE).write_bytes(self.saved(source, MIDDLE).read_bytes())
        lines = (self.folder / source / "out" / "metrics.jsonl").read_text().splitlines(keepends=True)
        torn = lines[:12] + [lines[12][:20]]  # two steps more than the checkpoint, and a broken third
        (self.folder / target / "out" / "metrics.jsonl").write_text("".join(torn))

    def test_halves_give_the_whole_bitwise(self):
        for strategy in ["zero3", "ddp"]:
            with self.subTest(strategy):
                changes = {**SAVING, "parallel.strategy": strategy, "schedule.kind": "constant"}
                whole, halves = strategy + "-whole", strategy + "-halves"
                self.train(changes, cwd=self.folder / whole)
                self.train({**changes, "train.steps": 10}, cwd=self.folder / halves)
                self.assert_same_file(self.saved(whole, MIDDLE), self.saved(halves, MIDDLE),
                                      ["/run", "/state/deck", "/state/digest"])
                self.train(changes, ["--resume", "auto"], cwd=self.folder / halves)
                self.assertEqual(numbers(self.folder / whole), numbers(self.folder / halves))
                self.assertEqual(sorted(numbers(self.folder / halves)), list(range(1, 21)))
                self.assert_same_file(self.saved(whole, LAST), self.saved(halves, LAST))

    def test_decaying_rate_and_a_file_by_name(self):
        self.train(SAVING, cwd=self.folder / "whole")
        self.train(SAVING, ["--resume", self.saved("whole", MIDDLE)], cwd=self.folder / "rest")
        whole, rest = numbers(self.folder / "whole"), numbers(self.folder / "rest")
        self.assertEqual(rest, {step: whole[step] for step in range(11, 21)})
        self.assertLess(whole[20][2], 0.2 * whole[6][2], "the learning rate decays")
        self.assert_same_file(self.saved("whole", LAST), self.saved("rest", LAST))

    def test_other_ranks_in_double(self):
        changes = {**SAVING, "precision.param": "fp64", "train.global_batch": 7}
        self.train(changes, cwd=self.folder / "on2", ranks=2)
        whole = numbers(self.folder / "on2")
        for ranks, strategy in [(3, "zero3"), (4, "zero1"), (1, "ddp")]:
            with self.subTest(ranks=ranks, strategy=strategy):
                run = f"on{ranks}"
                self.copy_middle("on2", run)
                self.train({**changes, "parallel.strategy": strategy}, ["--resume", "auto"], ranks,
                           self.folder / run)
                resumed = numbers(self.folder / run)
                self.assertEqual(list(resumed), list(range(1, 21)))
                for step in range(11, 21):
                    for name, one, other in zip(NUMBERS, whole[step], resumed[step]):
                        self.assertTrue(math.isclose(one, other, rel_tol=1e-10), f"{name} of {step}: {one}, {other}")

    def test_a_rank_is_killed(self):
        changes = {"train.steps": 100000, "checkpoint.every": 5, "checkpoint.keep": 2, "schedule.kind": "constant"}
        folder = self.folder / "killed"
        processes = folder / "processes"
        processes.mkdir(parents=True)
        (folder / "deck.toml").write_text(harness.deck_text({**harness.TINY, **changes}))
        started = subprocess.Popen(
            harness.command(3, harness.NOTE_PROCESS, processes, ["train", "deck.toml"]), cwd=folder,
            env=harness.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(started.terminate)
        saved = folder / "out" / "checkpoints"
        deadline = time.monotonic() + harness.LONGEST_RUN
        while not any(name > "step_00000010" for name in harness.checkpoints_of(saved)):
            self.assertIsNone(started.poll(), "it ended before it was killed")
            self.assertLess(time.monotonic(), deadline, "no checkpoint came")
            time.sleep(0.01)
        os.kill(int(next(processes.iterdir()).name), signal.SIGKILL)
        self.assertNotEqual(started.wait(timeout=harness.LONGEST_RUN), 0)

        newest = max(name for name in harness.checkpoints_of(saved) if name.startswith("step_"))
        step = int(newest[5:13])
        changes["train.steps"] = step + 5
        resumed = self.train(changes, ["--resume", "auto"], cwd=folder)
        self.assertIn(f"resumed out/checkpoints/{newest} at step {step}", resumed.out)
        self.assertEqual(harness.checkpoints_of(saved), [newest, f"step_{step + 5:08}.h5"])

        self.train({**changes, "checkpoint.every": 0}, cwd=self.folder / "whole")
        self.assertEqual(numbers(folder), numbers(self.folder / "whole"))


if __name__ == "__main__":
    harness.main()
