# SPDX-License-Identifier: MIT
"""How fast images are read, beside what a step computes. On CPUs a step reads its images before it computes. On GPUs a thread reads those of
the next step meanwhile, so that a step takes as long as the longer of the two. In evaluations on GPUs the host reads a round
while the GPU computes the one before it, except for every fourth round, which is not counted."""
import math

from prices import plus
from short_runs import value_on_line

SHORT = 0.05  # share of a step below which nothing is to be changed


class Feed:
    """The measured times of the pipeline of images in `facts`, or nothing if the data are no images."""

    def __init__(self, rows, facts):
        self.facts, self.feed = facts, facts["feed"]
        self.rows = [row for row in rows if self.feed and row["feed"] == self.feed["name"]]

    def __bool__(self):
        return bool(self.feed)

    def seconds(self, name, micro_batches):
        """Bounds and mean of the time in which all ranks read `micro_batches` micro-batches, or None if it was not measured."""
        pass_seconds = {row["micro_batches"]: row["seconds"] for row in self.rows if row["pass"] == name}
        if not pass_seconds:
            return None
        lines = [{count: times[place] for count, times in pass_seconds.items()} for place in range(3)]
        return tuple(sorted(max(value_on_line(line, micro_batches, grows=True), 0) for line in lines))

    def step(self):
        return self.seconds("training", self.facts["micro_batches"])

    def joint_time(self, computation, reading):
        """The time in which a step both reads images and computes."""
        return tuple(map(max, computation, reading)) if self.facts["is_gpu"] else plus(computation, reading)

    def wait(self, computation, reading):
        """The part of the joint time in which nothing is computed."""
        if not self.facts["is_gpu"]:
            return reading
        return tuple(max(time - other, 0) for time, other in zip(reading, reversed(computation)))

    def advice(self, computation, threads):
        """What to change if a step waits for images, or None. `threads` are the threads of a rank that compute."""
        reading = self.step()
        if not (computation and reading) or self.wait(computation, reading)[1] < SHORT * self.joint_time(computation, reading)[1]:
            return None
        rates = [f"{self.facts['items_per_step'] / time[1]:,.0f}" for time in (reading, computation) if time[1] > 0]
        said = f"steps wait for images: {rates[0]} a second are read, and {rates[-1]} could be computed"
        readers = self.feed["threads"]
        if readers is None:
            return f"{said}; one thread of each rank copies them, so more ranks read more"
        readers = readers or threads
        enough = math.ceil(readers * reading[1] / max(computation[1], 1e-9)) if self.facts["is_gpu"] else threads
        if enough > readers:
            return f"{said}; {readers} thread(s) of a rank read, try data.threads={enough} if the machine has as many cores for each rank"
        return f"{said}; smaller files, of about model.image_size, are read faster"
