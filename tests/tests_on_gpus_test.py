# SPDX-License-Identifier: MIT
"""Every test that needs a GPU is in the archive and is run by `tools/strata gpu-test`."""
import os
import re
import unittest

import sources

LAUNCHER, ARCHIVE = "tools/launcher/gpu_test.sh", "tools/BUILD"
RULE = re.compile(r"^\w+\([^\n]+\)$|^\w+\(\n.*?^\)", re.MULTILINE | re.DOTALL)  # on one line or on several
TAGGED = re.compile(r'tags = \[[^\]]*"gpu"')
NAME = re.compile(r'(?:^    |\()name = "(\w+)"', re.MULTILINE)
LOOP = '["gpu"] if name.startswith("gpu_")'  # a rule of several tests has the tag for some of them
NAMED = re.compile(r'"(gpu_\w+_test)"')
COMMENT = re.compile(r"(^|\s)#.*")  # a test that only a comment names is not run


def gpu_tests(text):
    """Returns the names of the tests in a BUILD file that need a GPU."""
    tagged = [NAME.search(rule) for rule in RULE.findall(text) if TAGGED.search(rule)]
    return {name.group(1) for name in tagged if name} | set(NAMED.findall(text) if LOOP in text else [])


def complaints(texts):
    """Returns what is missing in a list. `texts` are those of the two lists and of the BUILD files of tests, by path."""
    found = []
    for path, text in sorted(texts.items()):
        for name in sorted(gpu_tests(text)) if path.startswith("tests/") else []:
            for place in (LAUNCHER, ARCHIVE):
                if not re.search(rf"[:/( =]{name}\b", COMMENT.sub("", texts[place])):
                    found.append(f"{place}: {name} of {path} is missing")
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


if __name__ == "__main__":
    unittest.main()
