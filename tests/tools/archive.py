# SPDX-License-Identifier: MIT
"""Unpacks an archive of the programs in an empty folder, as on a machine without Bazel, for small runs."""
import json
import os
import shutil
import subprocess
import sys
import tarfile

# A model and a text that are so small that a run takes seconds.
SMALL = ["model.layers=2", "model.width=32", "model.heads=2", "model.feed_forward=64", "model.sequence=32", "batch=24", "micro_batch=4",
         "data.train=data/small/train.bin", "data.validation=data/small/validation.bin", "log.every=1", "schedule.warmup=1",
         "checkpoint.every=0", "evaluation.every=0"]


WITHOUT_TESTS = "tools/strata_without_tests.tar"  # dist_test finds the same files in the archive of `tools/strata dist`


class Archive:
    """The unpacked folder, and the names of its `files`. Commands run in it and know no build."""

    def __init__(self, folder, path=WITHOUT_TESTS):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with tarfile.open(path) as archive:
            archive.extractall(folder)
            self.files = sorted(member.name.removeprefix("strata/") for member in archive.getmembers() if not member.isdir())
        self.folder = os.path.join(folder, "strata")
        self.environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "STRATA_PYTHON": sys.executable, "TMPDIR": os.environ["TEST_TMPDIR"],
                            "OMP_WAIT_POLICY": "passive"}  # as for other tests, in .bazelrc

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *arguments, before=(), environment=None):
        return subprocess.Popen([*before, "tools/strata", *arguments], cwd=self.folder, env={**self.environment, **(environment or {})},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace")

    def run(self, *arguments, before=(), environment=None, seconds=240):
        """Returns (output, exit code)."""
        process = self.start(*arguments, before=before, environment=environment)
        return process.communicate(timeout=seconds)[0], process.returncode

    def prepare_small_text(self):
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("".join(f"{i} times {i} is {i * i}.\n" for i in range(1500)))
        words, code = self.run("prepare", "text", "--input", "text", "--output", "data/small")
        assert code == 0, words

    def records(self, run):
        """Returns the lines of metrics.jsonl. A run that goes on may have written half of the last one, which is left out."""
        with open(self.path(f"{run}/metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def losses(self, run):
        """Returns the losses of a run's steps, as they are written."""
        return [record["loss"] for record in self.records(run) if "loss" in record]
