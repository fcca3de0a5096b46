# SPDX-License-Identifier: MIT
"""The faults of the soak: what strikes a run, when, and the exit code that the documentation names for it."""

import dataclasses
import glob
import json
import os
import resource
import signal
import subprocess
import time
from typing import Callable

from soak_run import MOST_SECONDS, Deviation

RESTARTED = (7, 70, 137, 139)


@dataclasses.dataclass
class Kind:
    """`codes`: with which the run may end; none: it goes on. `fault`: what a start asks for in its `fault:` section.
    `stopped`: it strikes files while no rank runs."""

    @property
    def needs_start(self):
        return bool(self.fault or self.stopped)

    name: str
    strike: Callable
    codes: tuple = ()
    fault: str = ""
    stopped: bool = False


KINDS = {}


def kind(key, name, *codes, **options):
    def add(strike):
        KINDS[key] = Kind(name, strike, codes, **options)
        return strike
    return add


def some_moment(run, random):
    """Waits for a random moment: while ranks start, of a step, or while a save is in flight. Returns its name."""
    where = random.choice(["start", "step", "step", "save"])
    if where == "start" and not run.step() and run.wait(lambda: len(run.ranks()) == 2):
        time.sleep(random.uniform(0, 1))
        return "start"
    run.wait(run.step)
    if where == "save" and run.wait(run.saving):
        return "save"
    until = time.monotonic() + random.uniform(0, 1)
    run.wait(lambda: time.monotonic() > until)
    return "step %d" % run.step()


def send(run, process, number):
    run.struck_at = time.monotonic()
    try:
        os.kill(process, number)
    except ProcessLookupError:  # the run has ended by itself
        pass


def to_a_rank(number):
    def strike(run, random):
        moment = some_moment(run, random)
        rank = random.randrange(2)
        if rank in (ranks := run.ranks()):
            send(run, ranks[rank], number)
        return "rank %d, %s" % (rank, moment)
    return strike


def to_the_launcher(*numbers):
    def strike(run, random):
        moment = some_moment(run, random)
        for number in numbers:
            send(run, run.process.pid, number)
            time.sleep(random.uniform(0, 0.05))
        return moment
    return strike


kind("kill_rank", "SIGKILL of a rank", 137)(to_a_rank(signal.SIGKILL))
kind("crash", "SIGSEGV of a rank", 139)(to_a_rank(signal.SIGSEGV))
kind("ask_rank", "SIGUSR1 to a rank", 75, 138)(to_a_rank(signal.SIGUSR1))
kind("terminate", "SIGTERM", 75)(to_the_launcher(signal.SIGTERM))
kind("terminate_twice", "SIGTERM twice", 75)(to_the_launcher(signal.SIGTERM, signal.SIGTERM))
kind("hang_up", "SIGHUP", 75)(to_the_launcher(signal.SIGHUP))
kind("interrupt", "SIGINT", 75)(to_the_launcher(signal.SIGINT))
kind("interrupt_twice", "SIGINT twice", 75, 130)(to_the_launcher(signal.SIGINT, signal.SIGINT))


@kind("kill_all", "SIGKILL of all ranks and mpirun", 137)
def kill_all(run, random):
    moment = some_moment(run, random)
    for process in [*run.mpirun(), *run.ranks().values()]:
        send(run, process, signal.SIGKILL)
    return moment


@kind("kill_launcher", "SIGKILL of the launcher", -9)
def kill_launcher(run, random):
    moment = some_moment(run, random)
    send(run, run.process.pid, signal.SIGKILL)
    return moment


@kind("hang", "SIGSTOP of a rank", 7)
def hang(run, random):
    run.wait(run.step)
    moment = some_moment(run, random)
    rank = random.randrange(2)
    if rank in (ranks := run.ranks()):
        send(run, ranks[rank], signal.SIGSTOP)
        run.wait(lambda: glob.glob(run.path("error.json")))
        run.named.append((rank, moment, time.monotonic() - run.struck_at, report(run)))
    return "rank %d, %s" % (rank, moment)


def report(run):
    try:
        with open(run.path("error.json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def in_a_step(name, *codes, more=""):
    """A fault that the program injects into itself, in one of the first steps after the start."""
    key = "fault_" + name
    kind(key, "fault.kind: %s" % name, *codes, fault="%s%s" % (name, more))(lambda run, random: "step %d" % run.struck)


in_a_step("kill", 137)
in_a_step("exception", 70)
in_a_step("nan", 5)
in_a_step("nan_loss", 5)
in_a_step("extra_collective", 7)
in_a_step("hang", 7)


@kind("slow", "a rank is slow", fault="slow")
def slow(run, random):
    run.wait(lambda: run.step() >= run.struck + 3)
    return "step %d" % run.struck


@kind("skip", "an update is skipped, then SIGKILL", 137, fault="nan run.on_nonfinite=skip checkpoint.every=0")
def skip(run, random):
    """The weights now differ from those of the clean run. Nothing was saved since, so the next start has those of before."""
    run.wait(lambda: run.step() > run.struck)
    send(run, run.ranks().get(random.randrange(2), run.process.pid), signal.SIGKILL)
    if not any(line["step"] == run.struck and line.get("skipped") for line in run.records()):
        raise Deviation("step %d was not skipped" % run.struck)
    return "step %d" % run.struck


@kind("rollback", "a NaN that passes, then a rollback", fault="nan run.on_nonfinite=rollback")
def rollback(run, random):
    run.wait(lambda: any(line.get("rollback") == run.struck for line in run.records()))
    return "step %d" % run.struck


def failing(key, name, rank, calls, error, *codes):
    """System calls of a rank fail until a save has failed, or if `codes` says so until three in a row have ended the run."""
    def strike(run, random):
        run.wait(run.step)
        before = run.output().count(" not saved")
        if rank not in (ranks := run.ranks()):
            return "after the last step"
        strace = subprocess.Popen(["strace", "-f", "-qq", "-p", str(ranks[rank]), "-e", "trace=" + calls, "-e", "inject=%s:error=%s" % (calls, error)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            run.wait(lambda: run.output().count(" not saved") > before and not codes)
        finally:
            strace.terminate()  # from now on all calls succeed
            try:
                strace.wait(timeout=5)
            except subprocess.TimeoutExpired:  # it waits for a process that has ended
                strace.kill()
                strace.wait()
        return "rank %d, step %d" % (rank, run.step())
    kind(key, name, *codes)(strike)


failing("sync_error", "EIO of fdatasync", 1, "fdatasync", "EIO")
failing("full", "ENOSPC of fdatasync", 0, "fdatasync", "ENOSPC")
failing("folder_full", "ENOSPC of mkdir", 0, "mkdir,mkdirat", "ENOSPC")
failing("folder_error", "EIO of fsync of a folder", 0, "fsync", "EIO")
failing("rename_error", "EIO of rename", 0, "rename,renameat,renameat2", "EIO")
failing("broken", "EIO of each fdatasync", 1, "fdatasync", "EIO", 4)


@kind("short_write", "short writes, then EFBIG")
def short_write(run, random):
    run.wait(run.step)
    begin, before = run.step(), run.output().count(" not saved")
    if 1 not in (ranks := run.ranks()):
        return "after the last step"
    resource.prlimit(ranks[1], resource.RLIMIT_FSIZE, (random.randrange(1, 20000), resource.RLIM_INFINITY))
    run.wait(lambda: run.output().count(" not saved") > before)
    try:
        resource.prlimit(ranks[1], resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ProcessLookupError:
        pass
    return "rank 1, step %d" % begin


@kind("two_runs", "a second run in the folder")
def two_runs(run, random):
    run.wait(run.step)
    moment = "step %d" % run.step()
    second = subprocess.run([run.launcher, "train", run.config, "--ranks", "2", "run.folder=" + run.folder, *run.overrides], env=run.environment,
                            cwd=os.path.dirname(os.path.dirname(run.launcher)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MOST_SECONDS,
                            check=False)
    if run.alive() and second.returncode != 4:
        raise Deviation("the second run ended with %d: %s" % (second.returncode, second.stderr))
    return moment


def newest_file(run, random):
    """Returns a file of the newest checkpoint."""
    folder = run.path("checkpoints", "step-%08d" % run.newest())
    run.damaged.add(os.stat(folder).st_ino)
    return os.path.join(folder, random.choice(sorted(os.listdir(folder))))


@kind("bit", "a flipped bit in the newest checkpoint", stopped=True)
def flip(run, random):
    path = newest_file(run, random)
    place = random.randrange(os.path.getsize(path))
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << random.randrange(8)]))
    return "%s, byte %d" % (os.path.relpath(path, run.folder), place)


@kind("truncated", "a truncated file in the newest checkpoint", stopped=True)
def truncate(run, random):
    path = newest_file(run, random)
    size = random.randrange(os.path.getsize(path))
    os.truncate(path, size)
    return "%s, %d bytes" % (os.path.relpath(path, run.folder), size)


@kind("missing", "a missing file in the newest checkpoint", stopped=True)
def remove(run, random):
    path = newest_file(run, random)
    os.remove(path)
    return os.path.relpath(path, run.folder)


@kind("stray", "a stray file", stopped=True)
def stray(run, random):
    path = run.path(random.choice(["", "checkpoints"]), "notes.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("of somebody else\n")
    run.strays.add(path)
    return os.path.relpath(path, run.folder)


@kind("latest", "a deleted `latest`", stopped=True)
def delete_latest(run, random):
    os.remove(run.path("checkpoints", "latest"))
    return "between two starts"
