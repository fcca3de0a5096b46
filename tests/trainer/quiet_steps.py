# SPDX-License-Identifier: MIT
"""Which steps of a run were trained while other programs left the processors alone. A test of times counts only those, so that it tells the same on a machine
that others use. Kernel threads count for nobody: what the disk costs belongs to the run that writes."""

import os
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
NEAR = 0.5  # seconds before and after a step
MOST_SHARE = 0.1  # of one processor


def user_seconds(pid):
    """Returns the time for which a process has run outside of the kernel, or 0 if it has ended."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[11]) / TICKS
    except OSError:
        return 0


def descendants(pid):
    """Returns the ids of a process and of all that it has started."""
    found = [pid]
    for parent in found:
        for thread in os.listdir("/proc/%d/task" % parent):
            with open("/proc/%d/task/%s/children" % (parent, thread), encoding="utf-8") as file:
                found += map(int, file.read().split())
    return found


class OtherPrograms(threading.Thread):
    """Samples the time of other programs, and the length of a file to which a run writes a line after each step."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.samples, self.ended, self.own = path, [], threading.Event(), []

    def run(self):
        while not self.ended.wait(0.05):
            size = os.path.getsize(self.path) if os.path.exists(self.path) else 0
            if size and not self.own:
                self.own = descendants(os.getpid())
            with open("/proc/stat", encoding="utf-8") as file:
                user, nice = map(int, file.readline().split()[1:3])
            self.samples.append((time.monotonic(), size, (user + nice) / TICKS - sum(map(user_seconds, self.own))))

    def end(self):
        self.ended.set()
        self.join()

    def time_of(self, size):
        """Returns when the file had at least this size."""
        return next((now for now, length, _ in self.samples if length >= size), self.samples[-1][0])

    def share(self, begin, end):
        """Returns how much of one processor others used between two times."""
        inside = [(now, other) for now, size, other in self.samples if size and begin <= now <= end]
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) if len(inside) > 2 else 1

    def is_quiet(self, before, after):
        """Returns whether others left the processors alone while the file grew from the one size to the other."""
        return self.share(self.time_of(before) - NEAR, self.time_of(after) + NEAR) <= MOST_SHARE
