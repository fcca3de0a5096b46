# SPDX-License-Identifier: MIT
"""What the README shows of the project is what the project says of itself."""

import glob
import os
import re
import shlex
import subprocess
import unittest

import sources

ROOT = sources.root()
CHECK = os.path.abspath("trainer/check")
ARGUMENTS = re.compile(r"^    tools/strata (?:train|validate|profile|plan|packages|bench step) (configs/.*)$", re.MULTILINE)


def errors_of(*arguments):
    return subprocess.run([CHECK, *arguments], capture_output=True, text=True, cwd=ROOT, check=False).stderr


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.readme = read("README.md")

    def test_levels(self):
        result = subprocess.run(["tools/levels"], capture_output=True, text=True, check=True)
        self.assertIn(result.stdout.strip(), self.readme)

    def test_quick_start(self):
        lines = read("configs/quickstart.yaml").splitlines()[1:]
        self.assertIn("\n".join("    " + line for line in lines), self.readme)

    def test_configurations_of_commands(self):
        commands = [shlex.split(line, comments=True) for line in ARGUMENTS.findall(self.readme)]
        commands = [words for words in commands if words[0] != "configs/mine.yaml" and "--hosts" not in words]
        self.assertGreater(len(commands), 20)
        for words in commands:
            self.assertEqual(errors_of(*words), "", words)

    def test_sections(self):
        """Each line `model: {...}` and `data: {...}` fits a shipped configuration, or one with another such line."""
        lines = {key: [f"{key}={{{text}}}" for text in re.findall(rf"^    {key}: {{(.*?)}}(?:  .*)?$", self.readme, re.MULTILINE)]
                 for key in ("model", "data")}
        configs = glob.glob(ROOT + "/configs/quickstart*.yaml")
        for key, other in (("model", "data"), ("data", "model")):
            self.assertGreater(len(lines[key]), 4)
            for line in lines[key]:
                errors = [errors_of(config, line, *more) for config in configs for more in [[], *([line] for line in lines[other])]]
                self.assertIn("", errors, line)

    def test_reading_list(self):
        files = re.findall(r"^\| `([a-z_/]+\.[a-z]+)` \|", self.readme, re.MULTILINE)
        self.assertEqual(len(files), 6)
        for file in files:
            self.assertTrue(os.path.exists(os.path.join(ROOT, file)), file)


if __name__ == "__main__":
    unittest.main()
