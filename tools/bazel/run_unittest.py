# SPDX-License-Identifier: MIT
"""run_unittest.py FILE [--list | CASE...]: runs the unittest cases of one file, all of them or the named ones, and
writes each result to Bazel's test.xml, as GoogleTest does. --list prints the names. With a `shard_count` in the BUILD file
each process runs a part of them."""
import importlib.util
import os
import sys
import time
import unittest
from xml.sax.saxutils import quoteattr


class Recorder(unittest.TextTestResult):
    """Records the result and the time of each case."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.cases = {}

    def startTest(self, test):
        super().startTest(test)
        self.cases[test.id()] = ["passed", "", time.monotonic(), 0.0]

    def stopTest(self, test):
        super().stopTest(test)
        self.cases[test.id()][3] = time.monotonic() - self.cases[test.id()][2]

    def record(self, test, outcome, reason):
        case = getattr(test, "test_case", test)  # a failed subtest is a failure of its case
        self.cases.setdefault(case.id(), ["", "", 0.0, 0.0])[:2] = [outcome, reason]

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.record(test, "failure", str(error[1]))

    def addError(self, test, error):
        super().addError(test, error)
        self.record(test, "failure", str(error[1]))

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.record(test, "failure", str(error[1]))


def write_xml(path, suite, cases):
    failures = sum(case[0] == "failure" for case in cases.values())
    with open(path, "w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(f'<testsuites><testsuite name={quoteattr(suite)} tests="{len(cases)}" failures="{failures}">\n')
        for name, (outcome, reason, _, seconds) in cases.items():
            child = "" if outcome == "passed" else f"<{outcome} message={quoteattr(reason)}/>"
            file.write(f'<testcase name={quoteattr(name)} time="{seconds:.3f}">{child}</testcase>\n')
        file.write("</testsuite></testsuites>\n")


def cases_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield test


def shard_tests(suite):
    """Returns every n-th case, if Bazel has started n processes for this test."""
    with open(os.environ["TEST_SHARD_STATUS_FILE"], "w", encoding="utf-8"):
        pass  # tells Bazel that the cases are divided
    return unittest.TestSuite(list(cases_of(suite))[int(os.environ["TEST_SHARD_INDEX"])::int(os.environ["TEST_TOTAL_SHARDS"])])


def main():
    path, *wanted = sys.argv[1:]
    os.environ["PYTHON"] = sys.executable  # tests start this Python again
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromModule(module)
    if suite.countTestCases() == 0:
        sys.exit(f"{path} has no test cases")
    if wanted == ["--list"]:
        print("\n".join(case.id().removeprefix(name + ".") for case in cases_of(suite)))
        return
    if wanted:
        suite = loader.loadTestsFromNames(wanted, module)
    if "TEST_TOTAL_SHARDS" in os.environ:
        suite = shard_tests(suite)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Recorder).run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        write_xml(os.environ["XML_OUTPUT_FILE"], name, result.cases)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
