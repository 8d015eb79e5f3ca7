# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A signal on one rank, or a deadline, stops all ranks after a save, wherever they are; resumed, they go on bitwise."""

import json
import os
import re
import signal
import subprocess
import time

import harness

ENDLESS = {"train.steps": 1000000, "schedule.kind": "constant", "checkpoint.keep": 0, "train.log_every": 1000000}
RESULT = re.compile(r"RESULT: STOPPED step=(\d+) checkpoint=(\S+)")
NUMBERS = ["step", "loss", "lr", "grad_norm", "validation_loss"]


def numbers(folder):
    """What metrics.jsonl says but for times."""
    return [[row.get(name) for name in NUMBERS] for row in harness.metrics_of(folder / "out")]


class Run:
    """A training in the background, in a folder of its own."""

    def __init__(self, test, name, changes, ranks, options=()):
        self.test, self.ranks = test, ranks
        self.folder = test.folder / name
        self.processes = self.folder / "processes"
        self.processes.mkdir(parents=True, exist_ok=True)
        for file in self.processes.iterdir():
            file.unlink()
        (self.folder / "deck.toml").write_text(harness.deck_text({**harness.TINY, **changes}))
        self.output = self.folder / "output"
        with open(self.output, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                harness.command(ranks, harness.NOTE_PROCESS, self.processes, ["train", "deck.toml", *options]),
                cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, env=harness.environment())
        test.addCleanup(self.process.kill)

    def text(self):
        return self.output.read_text()

    def until(self, condition, what):
        end = time.monotonic() + harness.LONGEST_RUN
        while not condition():
            self.test.assertIsNone(self.process.poll(), f"it ended before {what}\n{self.text()}")
            self.test.assertLess(time.monotonic(), end, f"no {what}\n{self.text()}")
            time.sleep(0.001)

    def until_step(self, step):
        def reached():
            file = self.folder / "out" / "metrics.jsonl"
            return file.exists() and len(file.read_text().splitlines()) >= step
        self.until(reached, f"step {step}")

    def signal_last(self, number):
        """To one rank only."""
        self.until(lambda: len(list(self.processes.iterdir())) == self.ranks, "ranks")
        os.kill(max(int(file.name) for file in self.processes.iterdir()), number)

    def stopped(self, reason):
        """The step at which it stopped, checked against all that it leaves."""
        code = self.process.wait(timeout=harness.LONGEST_RUN)
        self.test.assertEqual(code, 75, self.text())
        result = [RESULT.fullmatch(line) for line in self.text().splitlines() if line.startswith("RESULT")]
        self.test.assertEqual(len(result), 1, self.text())
        self.test.assertIsNotNone(result[0], self.text())
        step, checkpoint = int(result[0][1]), result[0][2]
        self.test.assertEqual(checkpoint, f"out/checkpoints/step_{step:08}.h5")
        self.test.assertTrue((self.folder / checkpoint).is_file())
        self.test.assertFalse([name for name in harness.checkpoints_of(self.folder / "out" / "checkpoints")
                               if "partial" in name])
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.test.assertEqual((report["result"], report["stopped_by"], report["steps"], report["checkpoint"]["last"]),
                              (f"STOPPED step={step} checkpoint={checkpoint}", reason, step, checkpoint))
        self.test.assertEqual(len(harness.metrics_of(self.folder / "out")), step)
        return step


class Stop(harness.CliTest):
    def assert_goes_on_bitwise(self, run, changes, step):
        """Resumed for three more steps, it has the numbers of a run that was never stopped."""
        changes = {**changes, "train.steps": step + 3}
        self.train(changes, ["--resume", "auto"], run.ranks, run.folder)
        whole = self.folder / (run.folder.name + "-whole")
        self.train({**changes, "checkpoint.every": 0}, ranks=run.ranks, cwd=whole)
        self.assertEqual(numbers(run.folder), numbers(whole))

    def for_all_ranks(self, check):
        for ranks in [1, 2, 3]:
            with self.subTest(ranks=ranks):
                check(ranks)

    def samples_that_take(self, seconds, ranks):
        """How many validation samples this machine evaluates in that time, so that a signal surely falls within."""
        probe = 20000
        folder = self.folder / f"probe{ranks}"
        self.train({"train.steps": 1, "train.eval_every": 1, "data.validation_samples": probe}, ranks=ranks, cwd=folder)
        taken = json.loads((folder / "out" / "report.json").read_text())["seconds_rank0"]["evaluation"]
        return round(probe * seconds / taken)

    def test_before_the_first_step(self):
        def check(ranks):
            run = Run(self, f"early{ranks}", ENDLESS, ranks)
            run.until(lambda: "[model]" in run.text(), "deck")
            run.signal_last(signal.SIGTERM)
            step = run.stopped("SIGTERM")
            self.assert_goes_on_bitwise(run, ENDLESS, step)
        self.for_all_ranks(check)

    def test_in_a_step(self):
        def check(ranks):
            # 16 micro-batches a step on one rank: most of the time passes between two of them.
            changes = {**ENDLESS, "train.global_batch": 32, "train.micro_batch": 2}
            run = Run(self, f"step{ranks}", changes, ranks)
            run.until_step(3)
            run.signal_last(signal.SIGUSR1)
            step = run.stopped("SIGUSR1")
            self.assertGreaterEqual(step, 3)
            self.assert_goes_on_bitwise(run, changes, step)
        self.for_all_ranks(check)

    def test_in_an_evaluation(self):
        def check(ranks):
            samples = self.samples_that_take(1, ranks)
            changes = {**ENDLESS, "train.eval_every": 2, "data.validation_samples": samples}
            run = Run(self, f"evaluation{ranks}", changes, ranks)
            run.until_step(3)  # the next evaluation begins a few milliseconds later
            time.sleep(0.1)
            run.signal_last(signal.SIGUSR1)
            step = run.stopped("SIGUSR1")
            self.assertNotIn("validation_loss", harness.metrics_of(run.folder / "out")[-1], "it was in no evaluation")
            self.assert_goes_on_bitwise(run, changes, step)
        self.for_all_ranks(check)

    def test_in_the_last_evaluation(self):
        samples = self.samples_that_take(3, 2)
        changes = {"train.steps": 3, "train.eval_every": 3, "data.validation_samples": samples, "checkpoint.every": 3}
        run = Run(self, "last", changes, 2)
        run.until_step(2)
        time.sleep(0.1)
        run.signal_last(signal.SIGUSR1)
        self.assertEqual(run.stopped("SIGUSR1"), 3)
        self.train(changes, ["--resume", "auto"], 2, run.folder)
        self.assertEqual(json.loads((run.folder / "out" / "report.json").read_text())["result"], "VALID")
        self.train(changes, ranks=2, cwd=self.folder / "whole")
        self.assertEqual(numbers(run.folder), numbers(self.folder / "whole"))

    def test_in_a_save(self):
        def check(ranks):
            changes = {**ENDLESS, "checkpoint.every": 1, "checkpoint.keep": 3, "model.layers": 8}
            run = Run(self, f"save{ranks}", changes, ranks)
            run.until_step(2)
            folder = run.folder / "out" / "checkpoints"
            run.until(lambda: any("partial" in name for name in harness.checkpoints_of(folder)), "save")
            run.signal_last(signal.SIGTERM)
            step = run.stopped("SIGTERM")
            self.assertEqual(run.text().count(f"saved out/checkpoints/step_{step:08}.h5"), 1)
            self.assert_goes_on_bitwise(run, changes, step)
        self.for_all_ranks(check)

    def test_nothing_gained_writes_no_second_file(self):
        self.train({**ENDLESS, "train.steps": 4, "checkpoint.every": 4}, ranks=2)
        file = self.folder / "out" / "checkpoints" / "step_00000004.h5"
        before = file.stat()
        ended = self.run_program("train", "deck.toml", "--set", "train.steps=9", "--resume", "auto", "--deadline", "+0",
                                 ranks=2)
        self.assertEqual(ended.codes, [75, 75], ended.stderr)
        self.assertEqual(ended.out[-1], "RESULT: STOPPED step=4 checkpoint=out/checkpoints/step_00000004.h5")
        self.assertEqual((file.stat().st_ino, file.stat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        self.assertEqual(harness.checkpoints_of(file.parent), [file.name])
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertEqual((report["first_step"], report["steps"]), (4, 4))

    def test_deadline(self):
        for ranks, form in [(1, "+5"), (2, "{}"), (3, "%Y-%m-%dT%H:%M:%S")]:
            with self.subTest(form):
                end = time.time() + 5
                deadline = time.strftime(form, time.localtime(end)).format(end)
                run = Run(self, f"deadline{ranks}", ENDLESS, ranks, ["--deadline", deadline])
                step = run.stopped("deadline")
                late = 10 if form[0] == "+" else 5  # from the program's own start, or by the clock
                self.assertLess(time.time(), end + late, "it ended late")
                self.assert_goes_on_bitwise(run, ENDLESS, step)
        self.write_deck()
        valid = "valid: Unix seconds"
        for wrong, said in [("tomorrow", valid), ("", valid), ("1700000000", "is over")]:
            self.assert_refused(self.run_program("train", "deck.toml", "--deadline", wrong), 2, "--deadline", said)


if __name__ == "__main__":
    harness.main()
