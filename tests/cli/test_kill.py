# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""A run that is killed again and again goes on from its newest whole checkpoint, to the losses of a run that never was.

Usage: test_kill.py [--rounds N] [--seed N]
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import harness

RANKS = 2
DECK = {**harness.TINY, "model.width": 48, "model.heads": 3, "model.layers": 2, "train.steps": 1000000,
        "train.global_batch": 4, "checkpoint.every": 3, "checkpoint.keep": 3, "schedule.kind": "constant"}
# Ranks write to a file, since a killed launcher takes what it has not passed on with it.
NOTE = 'processes=$1; shift; touch "$processes/$$"; exec "$@" >>"$processes.out" 2>&1'
LAYOUTS = ["shared_file", "file_per_rank"]
OPTIONS = argparse.Namespace(rounds=8, seed=1)


def step_of(name):
    return int(re.search(r"step_(\d{8})", name).group(1))


def is_alive(process):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state not in "ZX"
    return False


def ranks_of(processes):
    return [int(note.name) for note in processes.iterdir()]


def losses(folder):
    """Loss and gradient norm by step, of all whole lines."""
    rows = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / "out" / "metrics.jsonl").read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                rows[row["step"]] = (row["loss"], row["grad_norm"])
    return rows


class Kill(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.saved = self.folder / "out" / "checkpoints"
        # What killed launchers and ranks leave of their own.
        shared = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shared.cleanup)
        self.environment = {**harness.environment(), "TMPDIR": shared.name,
                            "OMPI_MCA_btl_vader_backing_directory": shared.name,
                            "OMPI_MCA_btl_sm_backing_directory": shared.name}

    def newest(self):
        """Step of the newest whole checkpoint."""
        whole = [name for name in harness.checkpoints_of(self.saved) if re.fullmatch(r"step_\d{8}\.h5", name)]
        return max(map(step_of, whole), default=0)

    def partial(self, least_step, since):
        """A partial file or folder of a step from least_step on that was made after `since`, in ns."""
        for name in harness.checkpoints_of(self.saved):
            if name.endswith(".partial") and step_of(name) >= least_step:
                with contextlib.suppress(FileNotFoundError):
                    if (self.saved / name).stat().st_ctime_ns > since:
                        return name
        return None

    def start(self, number):
        processes, out = self.folder / f"round{number}", self.folder / f"round{number}.out"
        processes.mkdir()
        with open(out, "a") as stream:
            started = subprocess.Popen(
                harness.command(RANKS, NOTE, processes, ["train", "deck.toml", "--resume", "auto"]), cwd=self.folder,
                env=self.environment, stdout=stream, stderr=stream)
        self.addCleanup(self.kill, started, processes)
        return started, processes, out

    def kill(self, started, processes, one_rank=False):
        """Kills one rank, or all with their launcher, and waits until all are gone."""
        if started.returncode is not None:
            return
        if one_rank:
            os.kill(OPTIONS.random.choice(ranks_of(processes)), signal.SIGKILL)
        else:
            started.kill()
        deadline = time.monotonic() + harness.LONGEST_RUN
        while started.poll() is None or any(map(is_alive, ranks_of(processes))):
            for process in [] if one_rank else filter(is_alive, ranks_of(processes)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.assertLess(time.monotonic(), deadline, "a rank outlives the kill")
            time.sleep(0.002)
        self.assertNotEqual(started.returncode, 0)

    def wait_for(self, what, started, out):
        deadline = time.monotonic() + harness.LONGEST_RUN
        while not (found := what()):
            self.assertIsNone(started.poll(), out.read_text())
            self.assertLess(time.monotonic(), deadline, out.read_text())
        return found

    def one_round(self, number, before):
        """Starts the run, kills it and says whether a partial file was there. `before`: the newest checkpoint."""
        layout, behind = LAYOUTS[number % 2], number // 2 % 2 == 1
        one_rank, while_saving = number % 5 == 4, number % 7 < 5
        self.write_deck({**DECK, "checkpoint.layout": layout, "checkpoint.async": behind})
        since = time.time_ns()
        started, processes, out = self.start(number)
        if while_saving:
            least = before + DECK["checkpoint.every"] * OPTIONS.random.randint(1, 4)
            self.wait_for(lambda: self.partial(least, since), started, out)
            time.sleep(OPTIONS.random.uniform(0, 0.004))
        elif not one_rank and OPTIONS.random.random() < 0.3:
            time.sleep(OPTIONS.random.uniform(0, 1.5))  # perhaps before the first step
        else:
            metrics = self.folder / "out" / "metrics.jsonl"
            self.wait_for(lambda: metrics.exists() and metrics.stat().st_mtime_ns > since
                          and max(losses(self.folder), default=0) > before, started, out)
            time.sleep(OPTIONS.random.uniform(0, 0.5))
        self.kill(started, processes, one_rank)
        text = out.read_text()
        if before and "resumed" in text:
            self.assertIn(f"resumed out/checkpoints/step_{before:08}.h5 at step {before}\n", text)
        elif while_saving:
            self.assertIn("nothing to resume", text)
        told = [step_of(line) for line in text.splitlines() if line.startswith("saved ")]
        self.assertGreaterEqual(self.newest(), max(told, default=before), "a save that was told of is lost")
        return layout, behind, one_rank, self.partial(0, since) is not None

    def test_rounds(self):
        OPTIONS.random = random.Random(OPTIONS.seed)
        seen, kinds, partial, alone = {}, {}, 0, 0
        for number in range(OPTIONS.rounds):
            layout, behind, one_rank, left = self.one_round(number, self.newest())
            kind = layout + (", async" if behind else ", sync")
            kinds[kind] = kinds.get(kind, 0) + 1
            partial += left
            alone += one_rank
            for step, row in losses(self.folder).items():
                self.assertEqual(seen.setdefault(step, row), row, f"step {step} came out otherwise before")
        last = self.newest() + 2
        self.train({**DECK, "train.steps": last}, ["--resume", "auto"], ranks=RANKS)
        seen.update(losses(self.folder))
        (self.folder / "whole").mkdir()
        self.train({**DECK, "train.steps": max(seen), "checkpoint.every": 0}, ranks=RANKS, cwd=self.folder / "whole")
        self.assertEqual(losses(self.folder / "whole"), seen)
        print(f"{OPTIONS.rounds} kills over {max(seen)} steps: {kinds}; {partial} left a partial file, {alone} hit one "
              "rank only")
        self.assertGreaterEqual(2 * partial, OPTIONS.rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=OPTIONS.rounds)
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    sys.argv[1:] = rest
    harness.main()
