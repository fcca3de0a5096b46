# SPDX-License-Identifier: MIT
"""Counts the test cases of all targets of one `bazel test`, from Bazel's event file and the XML of each target."""
import argparse
import sys

from test_results import Events, cases_in, name_of, path_of


class Totals:
    """Counts of cases by outcome, with a line for each case that did not pass."""

    def __init__(self):
        self.count = {"passed": 0, "failed": 0, "skipped": 0}
        self.lines = []

    def add(self, outcome, name, reason=""):
        self.count[outcome] += 1
        if outcome != "passed":
            self.lines.append(f"{outcome}: {name}" + (f" ({reason})" if reason else ""))

    def __str__(self):
        return ", ".join(f"{number} {outcome}" for outcome, number in self.count.items())


def outcome_of(case):
    """The outcome of a <testcase> that GoogleTest, run_unittest.py, a shell test or Bazel wrote."""
    for problem in (case.find("failure"), case.find("error")):
        if problem is not None:
            return "failed", " ".join((problem.get("message") or problem.text or "").split())[:400]
    skipped = case.find("skipped")
    if skipped is not None or case.get("result") in ("skipped", "suppressed") or case.get("status") == "notrun":
        message = skipped.get("message", "") if skipped is not None else "disabled"
        return "skipped", " ".join(message.split())[-120:]
    return "passed", ""


def add_target(totals, label, passed, xml_path):
    """Adds the cases of one run of a target. A target that failed counts as at least one failure, whatever its XML
    says."""
    cases, damage = cases_in(xml_path)
    failed_before = totals.count["failed"]
    for case in cases:
        outcome, reason = outcome_of(case)
        totals.add(outcome, name_of(label, case), reason)
    if not passed and totals.count["failed"] == failed_before:
        totals.add("failed", label, "it crashed, hung or could not be built" + (f", and {damage}" if damage else ""))
    elif damage:
        totals.add("failed", label, damage)
    elif not cases and passed:
        totals.add("passed", label)


def read_events(events):
    """Returns, from the events: label -> [(passed, path of test.xml or None)], and the labels of tests that were not
    built."""
    runs, tests, failures = {}, set(), []
    for event in events:
        identity = event.get("id", {})
        if "targetConfigured" in identity and "_test rule" in event.get("configured", {}).get("targetKind", ""):
            tests.add(identity["targetConfigured"]["label"])
        elif "testResult" in identity and "testResult" in event:
            result = event["testResult"]
            passed = result.get("status") in ("PASSED", "FLAKY")
            runs.setdefault(identity["testResult"]["label"], []).append((passed, path_of(result, "test.xml")))
        elif "targetCompleted" in identity and "aborted" not in event and not event.get("completed", {}).get("success"):
            failures.append(identity["targetCompleted"]["label"])
    return runs, tests, failures


def add_events(totals, events, not_run):
    """Adds what the events say of all targets. Those in `not_run` need a GPU."""
    runs, tests, failures = read_events(events)
    for label in sorted(runs):
        for passed, path in runs[label]:
            add_target(totals, label, passed, path)
    silent = (set(failures) | tests) - set(runs) - not_run
    for label in sorted(silent):
        if label in failures:
            totals.add("failed", label, "it could not be built")
        elif not events.damage:
            totals.add("failed", label, "it was not run")
    for label in sorted(not_run):
        totals.add("skipped", label, "needs a GPU")
    if events.damage:
        totals.add("failed", f"{events.damage}; targets without a result in it: {len(silent - set(failures))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", required=True, help="written by bazel test --build_event_json_file")
    parser.add_argument("--not-run", required=True, help="labels of targets that were not run, one a line")
    parser.add_argument("--more", nargs=2, action="append", default=[], metavar=("passed|failed|skipped", "NAME"), help="what ran outside of Bazel")
    arguments = parser.parse_args()
    with open(arguments.not_run, encoding="utf-8") as file:
        not_run = set(file.read().split())
    totals = Totals()
    for outcome, name in arguments.more:
        totals.add(outcome, name)
    add_events(totals, Events(arguments.events), not_run)
    for line in sorted(totals.lines, key=lambda line: line.startswith("failed")):  # what failed stands at the end
        print(line)
    print(totals)
    sys.exit(1 if totals.count["failed"] or not totals.count["passed"] else 0)


if __name__ == "__main__":
    main()
