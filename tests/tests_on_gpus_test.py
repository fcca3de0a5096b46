# SPDX-License-Identifier: MIT
"""Every test that needs a GPU is in the archive and is run by `tools/strata gpu-test`. GoogleTest has them by rooms, in one executable."""
import ast
import os
import re
import unittest

import sources

LAUNCHER, ARCHIVE, ROOMS = "tools/launcher/gpu_test.sh", "tools/BUILD", "tools/bazel/gpu_tests.bzl"
NAMED = re.compile(r'"(gpu_\w+_test)"')
COMMENT = re.compile(r"(^|\s)#.*")  # a test that only a comment names is not run


def gpu_tests(text):
    """Returns the names of the tests in a BUILD file that need a GPU: the tests of gpu_tests, and all others."""
    room_tests, others = set(), set()
    for call in [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]:
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        if call.func.id == "gpu_tests":
            room_tests |= set(ast.literal_eval(arguments["tests"]))
        elif "tags" in arguments and "'gpu'" in ast.unparse(arguments["tags"]):
            # A loop over several tests sets the tag for those whose names begin with gpu_.
            name = arguments["name"]
            others |= {name.value} if isinstance(name, ast.Constant) else set(NAMED.findall(text))
    return room_tests, others


def complaints(texts):
    """Returns what is missing in a list. `texts` are those of the two lists and of the BUILD files of tests, by path."""
    found = []
    for path, text in sorted(texts.items()):
        if not path.startswith("tests/"):
            continue
        room_tests, others = gpu_tests(text)
        for name in sorted(room_tests | others):
            for place in (LAUNCHER, ARCHIVE) if name in others else (LAUNCHER,):
                if not re.search(rf"[:/( =]{name}\b", COMMENT.sub("", texts[place])):
                    found.append(f"{place}: {name} of {path} is missing")
        room = f"//{path.removesuffix('/BUILD')}"
        if room_tests and f'"{room}"' not in texts[ROOMS]:
            found.append(f"{ROOMS}: {room} is missing")
    return found


class TestsOnGpusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = [path for path in sources.files(sources.root(), "BUILD") if path.startswith("tests/")]
        cls.texts = {}
        for path in [LAUNCHER, ARCHIVE, ROOMS, *paths]:
            with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
                cls.texts[path] = file.read()

    def test_every_test_is_in_both_lists(self):
        self.assertEqual(complaints(self.texts), [])

    def test_a_test_that_is_missing_is_named(self):
        for name, path in (("swiglu_amax_gpu_test", "tests/kernels/quantize/BUILD"), ("gpu_faults_test", "tests/trainer/BUILD"),
                           ("triton_capture_test", "tests/kernels/BUILD"), ("gelu_gemm_gpu_test", "tests/kernels/BUILD")):
            for place in (LAUNCHER, ARCHIVE) if name.startswith("gpu_") else (LAUNCHER,):
                without = self.texts | {place: re.sub(rf"\b{name}\b", "", self.texts[place]) + f"# for {name}\n"}
                self.assertEqual(complaints(without), [f"{place}: {name} of {path} is missing"])

    def test_a_room_that_is_not_in_the_executable_is_named(self):
        without = self.texts | {ROOMS: self.texts[ROOMS].replace('"//tests/kernels/quantize",', "")}
        self.assertEqual(complaints(without), [f"{ROOMS}: //tests/kernels/quantize is missing"])


if __name__ == "__main__":
    unittest.main()
