# SPDX-License-Identifier: MIT
"""Many short runs of a program with LibTorch, whose start takes longer than such a run. forked_runs.h is the other side."""
import json
import os
import subprocess
import tempfile


class ForkedRuns:
    """A program that has started once, and forks a process for each run."""

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "--runs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def run(self, *words):
        """Returns what subprocess.run does, with texts. The run of a crash or of a hang has the negative number of its signal."""
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("output", "errors")]
            self.process.stdin.write(json.dumps([*files, *words]) + "\n")
            self.process.stdin.flush()
            code = self.process.stdout.readline()
            if not code:
                raise RuntimeError("%s --runs has ended with %d in the run %s" % (self.program, self.process.wait(), " ".join(words)))
            texts = []
            for name in files:
                with open(name, encoding="utf-8") as file:
                    texts.append(file.read())
        return subprocess.CompletedProcess([self.program, *words], int(code), *texts)
