# SPDX-License-Identifier: MIT
"""Runs the commands of a demo in a folder, shows them, and keeps what they print and their exit codes."""
import contextlib
import os
import shlex
import signal
import subprocess
import time

from command_group import end, hold_signals, start
from results import Results

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The quick start with two layers, few steps and one thread: a run takes seconds. Commands are shown with $small for it.
SMALL = ("steps=20 schedule.warmup=5 batch=8 micro_batch=2 model.layers=2 run.threads=1 checkpoint.every=0 evaluation.every=0 "
         "evaluation.final_tokens=4096 data.train=text/train.bin data.validation=text/validation.bin").split()
CONFIG = "configs/quickstart.yaml"
LAST_WORDS = 600  # characters of a failed command that are shown
GRACE = 60  # seconds in which a command that is asked to stop may save what it has


class Unexpected(Exception):
    """A command did not end as the demo expects."""

    def __init__(self, command, expected, came):
        super().__init__(command, expected, came)
        self.command, self.expected, self.came = command, expected, came


class Lab(Results):
    def __init__(self, folder, deadline, show):
        super().__init__(folder)
        self.deadline, self.show = deadline, show
        self.small_is_shown = False

    def prepare_text(self):
        """Makes the token files of the quick start's text."""
        self.strata("text", "prepare", "bible", "--output", "text")

    def train(self, run, *more, **how):
        if not self.small_is_shown:
            self.show(f"    small=\"{' '.join(SMALL)}\"")
            self.small_is_shown = True
        self.strata(run, "train", CONFIG, *SMALL, *more, f"run.folder={run}", **how)

    def bench(self, name, *more):
        self.strata(name, "bench", "step", CONFIG, "--warm-up", "5", "--steps", "5", "--profile-steps", "3", *more, "--json", f"{name}.json")

    def strata(self, name, *words, expect=(0,), faults=False, meanwhile=None):
        """Runs tools/strata WORDS to its end. It may end with the exit codes `expect`. meanwhile(lab, process) is called while it runs."""
        began = time.monotonic()
        with self.started(name, *words, faults=faults) as process:
            try:
                if meanwhile:
                    meanwhile(self, process)
                code = process.wait(timeout=max(0.1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Unexpected(shown(words), "its end within the time of this command",
                                 f"none in {time.monotonic() - began:.0f} s; if other programs use this machine, start one demo at a time") from None
        self.show(f"        {time.monotonic() - began:.1f} s, exit code {code}")
        with open(self.path(f"{name}.code"), "w", encoding="utf-8") as file:
            file.write(f"{code}\n")
        if code not in expect:
            said = " ".join((self.text(f"{name}.out") + self.text(f"{name}.err")).split())
            raise Unexpected(shown(words), f"exit code {' or '.join(map(str, expect))}", f"{code}; its last words: {said[-LAST_WORDS:]}")

    @contextlib.contextmanager
    def started(self, name, *words, faults=False):
        """Starts tools/strata WORDS. What is left of it at the end, as after Ctrl-C, is asked to stop."""
        self.show(f"    {'STRATA_FAULTS=1 ' if faults else ''}{shown(words)}")
        command = [os.path.join(ROOT, word) if word == CONFIG else word for word in words]
        environment = {**os.environ, "STRATA_DEMO": self.folder, **({"STRATA_FAULTS": "1"} if faults else {})}
        with open(self.path(f"{name}.out"), "w", encoding="utf-8") as out, open(self.path(f"{name}.err"), "w", encoding="utf-8") as errors:
            process = start([os.path.join(ROOT, "tools/strata"), *command], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=out, stderr=errors)
        try:
            hold_signals(signal.SIG_UNBLOCK)
            yield process
        finally:
            if process.poll() is None:
                end(process, GRACE)


def shown(words):
    """The command as a reader can type it."""
    text = shlex.join(["tools/strata", *words])
    return text.replace(shlex.join(SMALL), "$small")
