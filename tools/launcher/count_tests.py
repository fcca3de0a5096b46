# SPDX-License-Identifier: MIT
"""Counts the test cases of all targets of one `bazel test`, from Bazel's event file and the XML of each target."""
import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


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
    cases = []
    try:
        cases = list(ElementTree.parse(xml_path).iter("testcase")) if xml_path else []
    except OSError:
        pass
    except ElementTree.ParseError as error:
        if passed:
            totals.add("failed", label, f"its test.xml is damaged: {error}")
            return
    failed_before = totals.count["failed"]
    for case in cases:
        suite = case.get("classname")
        outcome, reason = outcome_of(case)
        totals.add(outcome, f"{label} {suite + '.' if suite else ''}{case.get('name')}", reason)
    if not passed and totals.count["failed"] == failed_before:
        totals.add("failed", label, "it crashed, hung or could not be built")
    elif not cases and passed:
        totals.add("passed", label)


def path_of(result, name):
    """The path of a file that the testResult of an event lists, or None."""
    for file in result.get("testActionOutput", []):
        place = urllib.parse.urlparse(file.get("uri", ""))
        if file["name"] == name and place.scheme == "file":
            return urllib.parse.unquote(place.path)
    return None


def read_events(lines):
    """Returns, from the events: label -> [(passed, path of test.xml or None)], and the labels of tests that were not
    built."""
    runs, tests, failures = {}, set(), []
    for line in lines:
        event = json.loads(line)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", required=True, help="written by bazel test --build_event_json_file")
    parser.add_argument("--not-run", required=True, help="labels of targets that were not run, one a line")
    parser.add_argument("--more", help="lines `passed|failed|skipped name` of what ran outside of Bazel")
    arguments = parser.parse_args()
    with open(arguments.events, encoding="utf-8") as file:
        runs, tests, failures = read_events(file)
    with open(arguments.not_run, encoding="utf-8") as file:
        not_run = set(file.read().split())
    totals = Totals()
    for label in sorted(runs):
        for passed, path in runs[label]:
            add_target(totals, label, passed, path)
    for label in sorted((set(failures) | tests) - set(runs) - not_run):
        totals.add("failed", label, "it could not be built" if label in failures else "it was not run")
    for label in sorted(not_run):
        totals.add("skipped", label, "needs a GPU")
    if arguments.more:
        with open(arguments.more, encoding="utf-8") as file:
            for line in file:
                outcome, name = line.strip().split(" ", 1)
                totals.add(outcome, name)
    for line in sorted(totals.lines, key=lambda line: line.startswith("failed")):  # what failed stands at the end
        print(line)
    print(totals)
    sys.exit(1 if totals.count["failed"] or not totals.count["passed"] else 0)


if __name__ == "__main__":
    main()
