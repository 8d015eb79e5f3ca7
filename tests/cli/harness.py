# SPDX-FileCopyrightText: 2026 The Shardmark authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program as a user does, on several ranks, and looks at how it ends.

The environment names the program (SHARDMARK_PROGRAM), the launcher with its flags (SHARDMARK_MPIEXEC) and the
project's folder (SHARDMARK_TOP); without it the defaults below hold.
"""

import collections
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
except ImportError:
    h5py = None

TOP = pathlib.Path(os.environ.get("SHARDMARK_TOP", pathlib.Path(__file__).parents[2])).resolve()
PROGRAM = os.environ.get("SHARDMARK_PROGRAM", str(TOP / "build" / "shardmark"))
MPIEXEC = shlex.split(os.environ.get("SHARDMARK_MPIEXEC", "mpiexec -n"))
SKIPPED = 77
LONGEST_RUN = 120  # seconds: a run that takes longer hangs

# A GPT of 4080 parameters: a step takes milliseconds.
TINY = {
    "model.layers": 1, "model.width": 16, "model.heads": 2, "model.context": 16, "model.vocab": 32,
    "data.kind": "markov", "data.states": 16, "data.successors": 3, "data.validation_samples": 4,
    "train.steps": 2, "train.global_batch": 6, "train.micro_batch": 2, "train.eval_every": 0,
    "train.peak_flops": 1e9, "output.dir": "out",
}

# Every rank notes its exit code and then ends well, so that the launcher stops no other rank and says nothing itself.
NOTE_CODE = 'codes=$1; shift; "$@"; echo $? >"$codes/$$"'
# Every rank notes its process, for tests that end one.
NOTE_PROCESS = 'processes=$1; shift; touch "$processes/$$"; exec "$@"'

TOOLS = ["h5ls", "h5dump", "h5diff", "h5repack"]
needs_tools = unittest.skipUnless(all(map(shutil.which, TOOLS)), f"not all installed: {', '.join(TOOLS)}")
needs_h5py = unittest.skipUnless(h5py, f"h5py is not installed for {sys.executable}")

# Exit codes of the ranks; the lines of standard output; the error lines of the program; all of standard error.
Ended = collections.namedtuple("Ended", "codes out errors stderr")


def is_open_mpi():
    """Of the launcher."""
    said = subprocess.run([MPIEXEC[0], "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return "Open MPI" in said or "OpenRTE" in said


def deck_text(values):
    """A deck with these values by "section.key", in TOML, whose values JSON writes too."""
    sections = collections.defaultdict(list)
    for key, value in values.items():
        section, name = key.split(".")
        sections[section].append(f"{name} = {json.dumps(value)}")
    return "\n".join("\n".join([f"[{section}]", *lines, ""]) for section, lines in sections.items())


def command(ranks, script, notes, arguments):
    return [*MPIEXEC, str(ranks), "sh", "-c", script, "sh", str(notes), PROGRAM, *map(str, arguments)]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_PROC_BIND": "false",
            "OMPI_MCA_mpi_yield_when_idle": "1"}


class CliTest(unittest.TestCase):
    """Each test has a folder of its own, in which the program runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_deck(self, changes=None, name="deck.toml"):
        (self.folder / name).write_text(deck_text({**TINY, **(changes or {})}))
        return name

    def run_program(self, *arguments, ranks=3, cwd=None):
        with tempfile.TemporaryDirectory() as notes:
            started = subprocess.Popen(command(ranks, NOTE_CODE, notes, arguments), cwd=cwd or self.folder, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            try:
                out, stderr = started.communicate(timeout=LONGEST_RUN)
            except subprocess.TimeoutExpired:
                started.terminate()
                out, stderr = started.communicate()
                self.fail(f"{arguments} still ran after {LONGEST_RUN} s\n{out}\n{stderr}")
            codes = sorted(int(file.read_text()) for file in pathlib.Path(notes).iterdir())
        errors = [line for line in stderr.splitlines() if line.startswith("shardmark")]
        return Ended(codes, out.splitlines(), errors, stderr)

    def launcher_code(self, *arguments, ranks=3):
        """What the launcher itself ends with."""
        ended = subprocess.run([*MPIEXEC, str(ranks), PROGRAM, *arguments], cwd=self.folder, env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LONGEST_RUN, check=False)
        return ended.returncode

    def assert_valid(self, ended, ranks=3):
        self.assertEqual(ended.codes, [0] * ranks, "\n".join(ended.out) + ended.stderr)
        self.assertEqual(ended.errors, [])
        self.assertEqual(ended.out[-1], "RESULT: VALID")

    def assert_refused(self, ended, code, *parts, ranks=3):
        """All ranks left by themselves with this code, and one said why, in one line that has these parts."""
        self.assertEqual(ended.codes, [code] * ranks, ended.stderr)
        self.assertEqual(len(ended.errors), 1, ended.stderr)
        for part in parts:
            self.assertIn(part, ended.errors[0])
        for trace in ["HDF5-DIAG", "MPI_ABORT", "MPI_Abort", "terminate called", "internal error"]:
            self.assertNotIn(trace, ended.stderr)
        self.assertNotIn("RESULT: VALID", ended.out)

    def train(self, changes=None, options=(), ranks=3, cwd=None):
        """Trains with the tiny deck, with changes, in `cwd`; the run is expected to end well."""
        cwd = pathlib.Path(cwd or self.folder)
        cwd.mkdir(exist_ok=True)
        (cwd / "deck.toml").write_text(deck_text({**TINY, **(changes or {})}))
        ended = self.run_program("train", "deck.toml", *options, ranks=ranks, cwd=cwd)
        self.assert_valid(ended, ranks)
        return ended


def metrics_of(folder):
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def checkpoints_of(folder):
    """Names of all files in a folder of checkpoints but the lock, hidden ones too."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    return []


def main():
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if result.wasSuccessful() and result.skipped and len(result.skipped) == result.testsRun:
        print("skipped:", result.skipped[0][1])
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
