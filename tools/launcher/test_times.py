# SPDX-License-Identifier: MIT
"""Reports how long the tests of one `bazel test` took, from its event file, and refuses a tier that took longer than its
budget. Results that came from a cache took no time and do not count."""
import argparse
import collections
import dataclasses
import re
import sys

from test_results import Events, cases_in, name_of, path_of

# tools/bazel/measured_test.sh writes this line. Bazel 4 measures no processor time itself.
PROCESSOR = re.compile(r"^processor seconds: ([0-9.]+) ([0-9.]+)$", re.MULTILINE)


@dataclasses.dataclass
class Run:
    """One run of a target, or of one of its shards; times in seconds."""
    label: str
    start: float
    seconds: float
    xml: str | None
    log: str | None

    def processor_seconds(self):
        """Those of the test and of the children that it waited for; None if they were not measured."""
        try:
            with open(self.log or "", encoding="utf-8", errors="replace") as file:
                found = PROCESSOR.findall(file.read())
        except OSError:
            return None
        return sum(map(float, found[-1])) if found else None

    def cases(self):
        """Pairs (seconds, name) of the cases in test.xml; none if it cannot be read."""
        for case in cases_in(self.xml)[0]:
            yield float(case.get("time") or 0), name_of(self.label, case)


def read_runs(events):
    """Returns the runs that took place, and the number of those whose result came from a cache."""
    runs, cached = [], 0
    for event in events:
        if "testResult" not in event or "testResult" not in event["id"]:
            continue
        result = event["testResult"]
        if result.get("cachedLocally") or result.get("executionInfo", {}).get("cachedRemotely"):
            cached += 1
            continue
        start, duration = (int(result.get(key, 0)) / 1000 for key in ("testAttemptStartMillisEpoch", "testAttemptDurationMillis"))
        runs.append(Run(event["id"]["testResult"]["label"], start, duration, path_of(result, "test.xml"), path_of(result, "test.log")))
    return runs, cached


def busy_seconds(runs):
    """Returns the time in which at least one test ran, however many ran beside it."""
    total, end = 0.0, 0.0
    for run in sorted(runs, key=lambda run: run.start):
        total += max(0.0, run.start + run.seconds - max(end, run.start))
        end = max(end, run.start + run.seconds)
    return total


def by_target(runs):
    """Returns (seconds of all shards, label, processor seconds or None), the slowest first."""
    label_runs = collections.defaultdict(list)
    for run in runs:
        label_runs[run.label].append(run)
    targets = []
    for label, shards in label_runs.items():
        processor = [shard.processor_seconds() for shard in shards]
        targets.append((sum(shard.seconds for shard in shards), label, None if None in processor else sum(processor)))
    return sorted(targets, key=lambda target: (-target[0], target[1]))


def target_line(seconds, label, processor):
    if processor is None:
        return f"{seconds:8.1f} s                          {label}"
    share = f"{100 * processor / seconds:.0f} %" if seconds else "-"
    return f"{seconds:8.1f} s, processor {processor:7.1f} s {share:>6}  {label}"


def print_profile(runs, cached, count=20):
    targets = by_target(runs)
    print(f"{len(targets)} targets ran for {busy_seconds(runs):.1f} s, {cached} results came from a cache. The slowest targets, all shards together;")
    print("a share of processor time below 100 % is waiting, above it several processes or threads:")
    for target in targets[:count]:
        print(target_line(*target))
    print("the slowest cases:")
    for seconds, name in sorted((case for run in runs for case in run.cases()), reverse=True)[:count]:
        print(f"{seconds:8.2f} s  {name}")


def keeps_budget(runs, cached, arguments):
    seconds = busy_seconds(runs)
    print(f"tier {arguments.tier}: {seconds:.1f} s of {arguments.budget:.0f} s, {cached} results came from a cache")
    if seconds <= arguments.budget:
        return True
    print(f"failed: the tests of tier {arguments.tier} took {seconds:.1f} s, and their budget is {arguments.budget:.0f} s; make the slowest "
          "of them faster, or give them a larger size in their BUILD file:")
    for target in by_target(runs)[:5]:
        print(target_line(*target))
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", required=True, help="written by bazel test --build_event_json_file")
    parser.add_argument("--profile", action="store_true", help="print the slowest targets and cases")
    parser.add_argument("--tier", help="the name of the tier, for --budget")
    parser.add_argument("--budget", type=float, help="seconds in which at least one test may run")
    arguments = parser.parse_args()
    events = Events(arguments.events)
    runs, cached = read_runs(events)
    if arguments.profile:
        print_profile(runs, cached)
    if events.damage:
        print(f"failed: times are missing: {events.damage}")
    kept = arguments.budget is None or keeps_budget(runs, cached, arguments)
    sys.exit(0 if kept and not events.damage else 1)


if __name__ == "__main__":
    main()
