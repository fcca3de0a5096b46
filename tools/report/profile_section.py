# SPDX-License-Identifier: MIT
"""The tables of profiled steps: where the ranks waited, and how near the ops came to the roofline."""
import collections

from checked_values import is_finite
from markup import details, paragraph, table
from profile_rows import COMMUNICATION, Profile

TIMES = ("milliseconds", "communication", "exposed", "idle")  # of a whole step
MOST_COLLECTIVES, MOST_OPS = 8, 40  # those that take the longest


def profile_tables(run):
    """Returns what the profiles of all ranks say together, or nothing if there is none."""
    if not run.profiles:
        return ""
    text = ""
    for words, profiles in parts_of(run.profiles):
        ranks = len(profiles)
        text += details(f"Ranks of {run.name}{words}: {ranks} profile{'s' if ranks > 1 else ''}", rank_table(profiles)) + \
            details(f"Ops of {run.name}{words} beside the roofline", op_table(profiles))
    return text


def parts_of(profiles):
    """Returns words and profiles: of all steps, or of the dense steps and then of those with pruned weights, which take longer."""
    parts = [(", dense steps", with_steps(profiles, False)), (", steps with pruned weights", with_steps(profiles, True))]
    return parts if all(part for _, part in parts) else [("", profiles)]


def with_steps(profiles, pruned):
    """Returns the profiles with the steps that are pruned, or with those that are not."""
    parts = {rank: profile.part(pruned) for rank, profile in profiles.items()}
    return {rank: part for rank, part in parts.items() if part.steps}


def name_of(row):
    return f"{row['op']} ({row['level']})"


def mean(profile, values):
    """Returns the mean of a step as text."""
    return f"{sum(value for value in values if is_finite(value)) / len(profile.steps):.3f}"


def rank_table(profiles):
    """A collective ends on all ranks at once, so the rank that is in it for the shortest time came last, and the others waited for it."""
    spent = {rank: collections.Counter() for rank in profiles}
    for rank, profile in profiles.items():
        for row in profile.rows:
            if row["level"] in COMMUNICATION:
                spent[rank][name_of(row)] += row["milliseconds"]
    longest = [name for name, _ in sum(spent.values(), collections.Counter()).most_common(MOST_COLLECTIVES)]
    rows = [[rank, len(profile.steps), *(mean(profile, [step.get(name) for step in profile.steps]) for name in TIMES),
             *(mean(profile, [spent[rank][name]]) for name in longest)] for rank, profile in profiles.items()]  # fmt: skip
    return paragraph("Milliseconds of a profiled step: all of it, communication, what of that nothing hides (exposed), and idle. Then each collective, "
                     "transfer and wait together: the rank that spends the least in one came last, and the others waited for it.") + \
        table(["rank", "steps", *TIMES, *longest], rows, range(6 + len(longest)))


def op_table(profiles):
    """The roofline of several rows is the roofline of their work together: the least time that it allows, divided by the time that they took."""
    ops = collections.defaultdict(list)
    for profile in profiles.values():
        for row in profile.rows:
            ops[row["op"], "backward" if row["backward"] else "forward", row["level"] or ""].append(row)
    spent = {key: sum(row["milliseconds"] for row in rows) for key, rows in ops.items()}
    steps, whole = sum(len(profile.steps) for profile in profiles.values()), sum(spent.values()) or 1
    rows = [[*key, f"{sum(row['calls'] for row in ops[key]) / steps:.4g}", f"{spent[key] / steps:.3f}", f"{100 * spent[key] / whole:.1f} %",
             roofline(ops[key]), longest_kernel(ops[key])] for key in sorted(spent, key=spent.get, reverse=True)[:MOST_OPS]]  # fmt: skip
    advertised = any(step.get("roofline_rates") == "advertised" for profile in profiles.values() for step in profile.steps)
    return paragraph(f"Means of a profiled step over {len(profiles)} ranks, longest first, {MOST_OPS} at most. The roofline is the share of the device's "
                     "bandwidth or arithmetic, whichever is nearer, where the work of an op is known."
                     + (" Both are advertised rates, because this device was not measured." if advertised else "")) + \
        table(["op", "", "level", "calls", "ms", "share", "roofline", "longest kernel or function"], rows, (3, 4, 5, 6))


def roofline(rows):
    known = [row for row in rows if is_finite(row.get("roofline")) and row["milliseconds"] > 0]
    taken = sum(row["milliseconds"] for row in known)
    return f"{100 * sum(row['roofline'] * row['milliseconds'] for row in known) / taken:.0f} %" if taken else ""


def longest_kernel(rows):
    """Returns the name of the kernel that takes the longest, on CPUs of the function, and how many others there are."""
    times = collections.Counter()
    for row in rows:
        for kernel in row["kernels"] if isinstance(row.get("kernels"), list) else ():
            if isinstance(kernel, dict) and isinstance(kernel.get("name"), str) and is_finite(kernel.get("milliseconds")):
                times[kernel["name"]] += kernel["milliseconds"]
    others = f" and {len(times) - 1} more" if len(times) > 1 else ""
    return times.most_common(1)[0][0][:120] + others if times else ""
