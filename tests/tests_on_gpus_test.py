# SPDX-License-Identifier: MIT
"""Every test that needs a GPU is in the archive, is run by `tools/strata gpu-test`, and is a part of the executable if it is one of GoogleTest."""
import os
import re
import unittest

import sources

LAUNCHER, ARCHIVE, EXECUTABLE = "tools/launcher/gpu_test.sh", "tools/BUILD", "tests/BUILD"
RULE = re.compile(r"^\w+\([^\n]+\)$|^\w+\(\n.*?^\)", re.MULTILINE | re.DOTALL)  # on one line or on several
TAGGED = re.compile(r'tags = \[[^\]]*"gpu"')
OF_EXECUTABLE = re.compile(r"^gpu_tests\(.*?^    tests = \[(.*?)\]", re.MULTILINE | re.DOTALL)
NAME = re.compile(r'(?:^    |\()name = "(\w+)"', re.MULTILINE)
LOOP = '["gpu"] if name.startswith("gpu_")'  # a rule of several tests has the tag for some of them
NAMED = re.compile(r'"(gpu_\w+_test)"')
COMMENT = re.compile(r"(^|\s)#.*")  # a test that only a comment names is not run


def gpu_tests(text):
    """Returns the names of the tests in a BUILD file that need a GPU."""
    tagged = [NAME.search(rule) for rule in RULE.findall(text) if TAGGED.search(rule)]
    listed = [name for names in OF_EXECUTABLE.findall(text) for name in re.findall(r'"(\w+)"', names)]
    return {name.group(1) for name in tagged if name} | set(listed) | set(NAMED.findall(text) if LOOP in text else [])


def complaints(texts):
    """Returns what is missing in a list. `texts` are those of the two lists and of the BUILD files of tests, by path."""
    found = []
    for path, text in sorted(texts.items()):
        for name in sorted(gpu_tests(text)) if path.startswith("tests/") else []:
            for place in (LAUNCHER, ARCHIVE):
                if not re.search(rf"[:/( =]{name}\b", COMMENT.sub("", texts[place])):
                    found.append(f"{place}: {name} of {path} is missing")
        label = f"//{path.removesuffix('/BUILD')}:gpu_tests"
        if OF_EXECUTABLE.search(text) and f'"{label}"' not in texts[EXECUTABLE]:
            found.append(f"{EXECUTABLE}: {label} is missing")
    return found


class TestsOnGpusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = [path for path in sources.files(sources.root(), "BUILD") if path.startswith("tests/")]
        cls.texts = {}
        for path in [LAUNCHER, ARCHIVE, *paths]:
            with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
                cls.texts[path] = file.read()

    def test_every_test_is_in_both_lists(self):
        self.assertEqual(complaints(self.texts), [])

    def test_a_test_that_is_missing_is_named(self):
        for name, path in (("swiglu_amax_gpu_test", "tests/kernels/quantize/BUILD"), ("gpu_faults_test", "tests/trainer/BUILD"),
                           ("triton_capture_test", "tests/kernels/BUILD"), ("gelu_gemm_gpu_test", "tests/kernels/BUILD")):
            for place in (LAUNCHER, ARCHIVE):
                without = self.texts | {place: re.sub(rf"\b{name}\b", "", self.texts[place]) + f"# for {name}\n"}
                self.assertEqual(complaints(without), [f"{place}: {name} of {path} is missing"])

    def test_a_room_that_is_not_in_the_executable_is_named(self):
        without = self.texts | {EXECUTABLE: self.texts[EXECUTABLE].replace('"//tests/kernels/quantize:gpu_tests",', "")}
        self.assertEqual(complaints(without), ["tests/BUILD: //tests/kernels/quantize:gpu_tests is missing"])


if __name__ == "__main__":
    unittest.main()
