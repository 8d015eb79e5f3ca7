# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""The job scripts on a real Slurm of four virtual nodes, which cluster.sh starts on this machine.

Jobs that would train for ever are stopped in all ways that there are, and end once the test has written their deck
anew. Where the daemons can't be started the test says why, and that it is skipped (code 77).
"""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import harness  # pylint: disable=wrong-import-position

CLUSTER = pathlib.Path(__file__).with_name("cluster.sh")
SCRIPTS = harness.TOP / "scripts" / "slurm"
ENDLESS = 10**9
LONGEST_WAIT = 180  # seconds
NUMBERS = ["step", "loss", "lr", "grad_norm"]
FLAGS = {"srun": "--mpi=pmix", "mpirun": "--bind-to none"}


class Cluster:
    """Four nodes, and a folder for the jobs."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="sm-slurm-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self.temporary.name)
        self.state = self.folder / "cluster"
        self.environment = {**harness.environment(), "PATH": f"{self.state}/bin:{os.environ['PATH']}",
                            "SLURM_CONF": f"{self.state}/etc/slurm.conf", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "SHARDMARK_TOP": str(harness.TOP),
                            "SHARDMARK_PROGRAM": harness.PROGRAM, "SHARDMARK_SITE": "/nonexistent"}

    def start(self):
        """What went wrong, or nothing."""
        if os.getuid() != 0:
            return "virtual nodes need root"
        if not harness.is_open_mpi():
            return "the ways to start ranks that are tested here are Open MPI's"
        started = subprocess.run([CLUSTER, "start", "4", "-d", self.state, "--kill-wait", "10"], text=True, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return "" if started.returncode == 0 else started.stdout.strip()

    def stop(self):
        subprocess.run([CLUSTER, "stop", "-d", self.state], check=False)
        self.temporary.cleanup()

    def run(self, *command, **environment):
        ended = subprocess.run(list(map(str, command)), env={**self.environment, **environment}, text=True, check=False,
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        if ended.returncode != 0:
            raise AssertionError(f"{command}: {ended.stdout}")
        return ended.stdout.strip()


cluster = Cluster()


def wait_until(condition, what):
    end = time.monotonic() + LONGEST_WAIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come in {LONGEST_WAIT} s\n{cluster.run('squeue')}")
        time.sleep(0.2)


class Job:
    """A job of train.sbatch with a deck of its own."""

    def __init__(self, name, nodes, steps, launcher="srun", options=()):
        self.folder = cluster.folder / name
        self.folder.mkdir()
        self.deck = self.folder / "deck.toml"
        self.write_deck(steps)
        self.id = cluster.run("sbatch", "--parsable", f"--nodes={nodes}", "--time=10", f"--output={self.folder}/output",
                              *options, SCRIPTS / "train.sbatch", self.deck, OUTPUT=str(self.folder / "out"),
                              LAUNCHER=launcher, LAUNCHER_FLAGS=FLAGS[launcher])

    def write_deck(self, steps):
        changes = {"train.steps": steps, "schedule.kind": "constant", "train.log_every": 1000}
        self.deck.write_text(harness.deck_text({**harness.TINY, **changes}))

    def text(self):
        output = self.folder / "output"
        return output.read_text(errors="replace") if output.exists() else ""

    def steps(self):
        file = self.folder / "out" / "metrics.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def state(self):
        """JobState, Restarts and the other fields of scontrol."""
        return dict(re.findall(r"(\w+)=(\S+)", cluster.run("scontrol", "show", "job", self.id)))

    def until_steps(self, steps):
        wait_until(lambda: self.steps() >= steps, f"step {steps} of {self.folder.name}")

    def until_queued_again(self, restarts):
        def queued():
            state = self.state()
            return state["JobState"] in ("PENDING", "RUNNING") and state["Restarts"] == str(restarts)
        wait_until(queued, f"restart {restarts} of {self.folder.name}")

    def until_ended(self):
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        wait_until(lambda: self.state()["JobState"] in ended, f"the end of {self.folder.name}")
        return self.state()

    def numbers(self):
        return [[row[name] for name in NUMBERS] for row in harness.metrics_of(self.folder / "out")]

    def report(self):
        return json.loads((self.folder / "out" / "report.json").read_text())

    def results(self):
        return [line for line in self.text().splitlines() if line.startswith("RESULT")]


class Slurm(harness.CliTest):
    def assert_completed(self, job, restarts):
        state = job.until_ended()
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", str(restarts)), job.text())
        self.assertEqual(job.results()[-1], "RESULT: VALID", job.text())
        self.assertEqual([line.split(" step=")[0] for line in job.results()[:-1]], ["RESULT: STOPPED"] * restarts)

    def assert_stopped_and_saved(self, job):
        step = job.steps()
        self.assertTrue((job.folder / "out" / "checkpoints" / f"step_{step:08}.h5").is_file(), job.text())
        self.assertEqual(job.report()["steps"], step)

    def test_a_job_in_several_links_has_the_losses_of_one(self):
        chain = Job("chain", 2, ENDLESS)
        # Slurm may send the signal up to a minute early, here at once; without it the deadline comes, or both.
        limited = Job("limited", 2, ENDLESS, options=["--time=1", "--signal=B:USR1@30"])
        chain.until_steps(20)
        cluster.run("scancel", "--batch", "--signal=USR1", chain.id)
        chain.until_queued_again(1)
        self.assert_stopped_and_saved(chain)
        first = chain.steps()

        limited.until_queued_again(1)
        self.assert_stopped_and_saved(limited)
        limited.write_deck(limited.steps() + 20)
        cluster.run("scontrol", "update", f"JobId={limited.id}", "TimeLimit=10")

        chain.until_steps(first + 20)
        cluster.run("scontrol", "requeue", chain.id)  # as preemption does
        chain.until_queued_again(2)
        wait_until(lambda: "ended with code 75" in chain.text().split("link 2 of")[1], "the end of link 2")
        self.assert_stopped_and_saved(chain)
        chain.write_deck(chain.steps() + 20)
        self.assert_completed(chain, 2)
        self.assertEqual(chain.text().count("queueing job"), 1, "Slurm queued it again the second time")
        self.assert_completed(limited, 1)

        whole = Job("whole", 2, max(chain.steps(), limited.steps()))
        self.assert_completed(whole, 0)
        for job in [chain, limited]:
            self.assertGreaterEqual(job.steps(), 40)
            self.assertEqual(job.numbers(), whole.numbers()[:job.steps()])

    def test_ranks_on_four_nodes_form_one_job(self):
        jobs = [Job(launcher, 4, 30, launcher) for launcher in FLAGS]
        for job in jobs:
            self.assert_completed(job, 0)
            self.assertEqual([line.split(":")[0] for line in job.report()["mesh"]],
                             [f"rank {rank} on n{rank + 1}" for rank in range(4)])
        self.assertEqual(jobs[0].numbers(), jobs[1].numbers())

    def test_a_cancelled_job_saves_and_ends(self):
        jobs = [Job("cancelled-" + launcher, 2, ENDLESS, launcher) for launcher in FLAGS]
        for job in jobs:
            job.until_steps(20)
            cluster.run("scancel", job.id)
        for job in jobs:
            state = job.until_ended()
            self.assertEqual((state["JobState"], state["Restarts"]), ("CANCELLED", "0"))
            self.assert_stopped_and_saved(job)
            self.assertEqual(len(job.results()), 1, job.text())
            self.assertNotIn("queueing", job.text())

    def test_scaling_series_are_submitted_and_collected(self):
        (cluster.folder / "scaling.toml").write_text(harness.deck_text({**harness.TINY, "train.steps": 10}))
        results = cluster.folder / "scaling"
        said = cluster.run(SCRIPTS / "scaling.sh", "--nodes", "1 2", "--repeats", "2", "--results", results,
                           "scaling.toml", "--", "--set", "train.eval_every=5", LAUNCHER="srun",
                           LAUNCHER_FLAGS=FLAGS["srun"])
        self.assertEqual(said.count("2 repeats"), 4)
        wait_until((results / "scaling.csv").exists, "the table")
        wait_until(lambda: "efficiency" in (results / "collect.out").read_text(), "the summary")
        with open(results / "scaling.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        found = [(row["series"], row["nodes"], row["repeat"], row["ranks"], row["result"]) for row in rows]
        self.assertEqual(found, [(series, nodes, repeat, nodes, "VALID") for series in ["strong", "weak"]
                                 for nodes in "12" for repeat in "12"])
        folders = [results / row["series"] / f"nodes_{row['nodes']}" / f"repeat_{row['repeat']}" for row in rows]
        for row, folder in zip(rows, folders):
            batch = 12 if (row["series"], row["nodes"]) == ("weak", "2") else 6
            self.assertIn(f"global_batch = {batch}\n", (folder / "deck.toml").read_text())
        times = [(folder / "report.json").stat().st_mtime for folder in folders]
        self.assertEqual(times, sorted(times), "each waits for the one before")


if __name__ == "__main__":
    problem = cluster.start()
    if problem:
        print("SKIPPED: no Slurm can be started here:", problem)
        cluster.stop()
        sys.exit(harness.SKIPPED)
    try:
        harness.main()
    finally:
        cluster.stop()
