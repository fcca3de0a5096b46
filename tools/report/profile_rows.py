# SPDX-License-Identifier: MIT
"""Reads the profiles of a run, profile/rank-N.jsonl, as trainer/profile/profile_files.cc writes them."""
import glob
import os
import re
import typing

from checked_values import is_finite, object_of
from growing_file import lines_of

ROW = ("phase", "op", "backward", "level", "layer", "calls", "milliseconds")  # members of a row of an op
COMMUNICATION = ("collective", "wait")  # what stands for the level of a collective, and of a host that waits for one


class Profile(typing.NamedTuple):
    steps: list  # records of whole steps
    rows: list  # records of ops, several of each step

    def part(self, pruned):
        """Returns the profile of the steps with pruned weights, or of the dense steps."""
        steps = [step for step in self.steps if (step.get("pruned") is True) == pruned]
        numbers = {step["step"] for step in steps}
        return Profile(steps, [row for row in self.rows if isinstance(row.get("step"), int) and row["step"] in numbers])


def profile_of(path):
    """Returns the profile of one rank. Lines that are no records of it are left out."""
    found = Profile([], [])
    try:
        with open(path, "rb") as file:
            records = [object_of(line) for line, _ in lines_of(file)]
    except FileNotFoundError:  # a run that is started again has just given it another name
        return found
    for record in records:
        if not record or not is_finite(record.get("milliseconds")):
            continue
        if all(name in record for name in ROW):
            if is_finite(record["calls"]) and isinstance(record["op"], str) and isinstance(record["level"], (str, type(None))):
                found.rows.append(record)
        elif "forward" in record and isinstance(record.get("step"), int):
            found.steps.append(record)
    return found


def profiles_of(folder):
    """Returns {rank: profile} of all ranks that have one with a step, in their order."""
    paths = glob.glob(os.path.join(glob.escape(folder), "profile", "rank-*.jsonl"))
    numbers = [(re.fullmatch(r"rank-(\d{1,7})\.jsonl", os.path.basename(path)), path) for path in paths]
    files = {int(number[1]): path for number, path in numbers if number and os.path.isfile(path)}
    found = {rank: profile_of(files[rank]) for rank in sorted(files)}
    return {rank: profile for rank, profile in found.items() if profile.steps}
