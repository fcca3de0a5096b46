# SPDX-License-Identifier: MIT
"""A run that is started again and again by the launcher, with its processes, its checkpoints and what it has said."""

import json
import os
import re
import signal
import subprocess
import time

RANKS = 2
# Seconds in which all processes of a run end after the launcher. If it was killed, mpirun has 3 s before SIGKILL.
ENDS = 10
MOST_SECONDS = 240  # without a step or an end: the run hangs
SAMPLES_EVERY = 0.25

STEP = re.compile(r"^step: (\d+)  loss: ", re.MULTILINE)
RESUMED = re.compile(r"resumed from step (\d+)")
RESTART = re.compile(r"^strata: exit code (\d+).*; restart \d+ of \d+ ", re.MULTILINE)


class Deviation(Exception):
    """The run did something else than the documentation says."""


def variables(process):
    with open("/proc/%d/environ" % process, "rb") as file:
        return file.read().split(b"\0")


def resources(process):
    """Returns the resident KiB and the number of open files of a process, those of a save in flight not counted."""
    with open("/proc/%d/status" % process, encoding="utf-8") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
    folder = "/proc/%d/fd" % process
    files = 0
    for number in os.listdir(folder):
        try:
            files += "/checkpoints" not in os.readlink(folder + "/" + number)
        except OSError:  # it has been closed
            pass
    return resident, files


class SoakRun:
    """One run folder. `launcher` is the path of tools/strata, and all processes have the variable STRATA_SOAK=mark."""

    def __init__(self, launcher, environment, config, folder, mark, steps, overrides):
        self.launcher, self.config, self.folder, self.mark, self.steps, self.overrides = launcher, config, folder, mark, steps, overrides
        self.environment = {**environment, "STRATA_SOAK": mark, "STRATA_FAULTS": "1"}
        self.process, self.begin, self.damaged = None, 0, set()
        self.samples = {}  # (role, process id): [(seconds, KiB, open files)]
        self.sampled = 0
        self.expected = None  # the step from which the next start has to resume

    # What the user does.

    def start(self, *overrides):
        self.expected = self.newest()
        self.begin = time.monotonic()
        command = [self.launcher, "train", self.config, "--ranks", str(RANKS), "run.folder=" + self.folder, *self.overrides, *overrides]
        with open(self.folder + ".log", "wb") as log:
            self.process = subprocess.Popen(command, cwd=os.path.dirname(os.path.dirname(self.launcher)), env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def output(self):
        with open(self.folder + ".log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def step(self):
        """Returns the last step that the launcher has printed since its start, or 0."""
        return int(([0] + STEP.findall(self.output()))[-1])

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def wait(self, ready, seconds=MOST_SECONDS):
        """Waits until `ready` returns true or the launcher has ended. Returns whether it was ready."""
        limit = time.monotonic() + seconds
        while not ready():
            if not self.alive():
                return ready()
            if time.monotonic() > limit:
                raise Deviation("nothing happened for %d s" % seconds)
            self.sample()
            time.sleep(0.01)
        return True

    def wait_for_a_new_step(self):
        """Waits for a step that comes after this call. Returns whether there was one before the run ended or restarted. The first step
        after a start tells from where the run resumed."""
        begin = len(self.words())
        restarts = len(RESTART.findall(self.output()))
        self.wait(lambda: STEP.search(self.words(), begin) or len(RESTART.findall(self.output())) > restarts)
        said = self.words()
        if not STEP.search(said, begin):
            return False
        found = [int(step) for step in RESUMED.findall(said)]
        if found != ([] if self.expected is None else [self.expected]):
            raise Deviation("resumed from %s, and the newest checkpoint is that of step %s" % (found or "nothing", self.expected))
        return True

    def words(self):
        """Returns what the run has said since its last start or restart."""
        return self.output().split("; restart ")[-1]

    # Its processes.

    def processes(self):
        """Returns {process id: rank, or the name of the program} of all that live."""
        found = {}
        for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                known = variables(process)
                program = os.path.basename(os.readlink("/proc/%d/exe" % process))
            except OSError:  # it has ended
                continue
            if b"STRATA_SOAK=" + self.mark.encode() not in known:
                continue
            rank = [int(entry.partition(b"=")[2]) for entry in known if entry.startswith(b"OMPI_COMM_WORLD_RANK=")]
            found[process] = rank[0] if rank and program == "train" else program
        return found

    def ranks(self):
        return {name: process for process, name in self.processes().items() if isinstance(name, int)}

    def mpirun(self):
        return [process for process, name in self.processes().items() if name in ("mpirun", "orterun")]

    def expect_no_process(self):
        limit = time.monotonic() + ENDS
        while left := self.processes():
            if time.monotonic() > limit:
                self.kill_all()
                raise Deviation("processes were left: %s" % left)
            time.sleep(0.02)

    def kill_all(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while self.processes():  # a rank that is ending still holds the folder
            time.sleep(0.02)
        if self.process is not None:
            self.process.wait(timeout=60)

    def sample(self):
        if time.monotonic() - self.sampled < SAMPLES_EVERY or not self.step():
            return
        self.sampled, ranks = time.monotonic(), self.ranks()
        # Before the ranks start and in a pause the launcher has fewer files open.
        launcher = [("launcher", self.process.pid)] if len(ranks) == RANKS else []
        for name, process in [*ranks.items(), *launcher]:
            try:
                self.samples.setdefault((name, process), []).append((self.sampled - self.begin, *resources(process)))
            except (OSError, TypeError):  # it is ending
                pass

    # Its files.

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def names(self):
        try:
            return os.listdir(self.path("checkpoints"))
        except FileNotFoundError:
            return []

    def saving(self):
        return any(re.match(r"step-\d+\.tmp-", name) for name in self.names())

    def checkpoints(self):
        """Returns the steps of the checkpoints that nobody has damaged, the oldest first."""
        return sorted(int(name[5:]) for name in self.names() if re.fullmatch(r"step-\d{8,}", name) and self.identity(name) not in self.damaged)

    def identity(self, name):
        """A checkpoint that replaces a damaged one of the same step has another inode."""
        return os.stat(self.path("checkpoints", name)).st_ino

    def newest(self):
        return (self.checkpoints() or [None])[-1]

    def records(self):
        with open(self.path("metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def results(self):
        """Returns all that must not depend on faults: losses, norms, evaluations and hashes of weights, by step."""
        records = self.records()
        kept = ("loss", "gradient_norm", "learning_rate", "validation_loss")
        found = [(record["step"], {name: record[name] for name in kept if name in record}) for record in records]
        hashes = {record["step"]: record["weights_sha256"] for record in records if "weights_sha256" in record}
        return sorted(((step, values) for step, values in found if values), key=lambda pair: (pair[0], "loss" not in pair[1])), hashes

    def temporary_files(self):
        return [os.path.join(folder, name) for folder, folders, files in os.walk(self.folder) for name in folders + files if ".tmp" in name]
