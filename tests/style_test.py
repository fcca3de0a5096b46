# SPDX-License-Identifier: MIT
"""Checks that sources are formatted, scripts parse and pass shellcheck, and no file names a user's machine."""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

import pages
import sources

sys.path.insert(0, os.path.join(sources.root(), "tools/bazel"))
import format_build  # noqa: E402

# Another version formats differently. Debian 12 and Ubuntu 24.04 both have this one.
CLANG_FORMAT = "clang-format-14"


def misformatted(folder, paths):
    """Returns the files that clang-format would change, according to its own messages."""
    result = subprocess.run([CLANG_FORMAT, "--dry-run", "--Werror", "--style=file", *paths], cwd=folder, capture_output=True,
                            text=True, check=False)
    return sorted({line.split(":")[0] for line in result.stderr.splitlines() if "clang-format-violations" in line})


def shellcheck(folder, paths):
    """Returns what shellcheck says of scripts, under the .shellcheckrc of the checkout if they are below it."""
    return subprocess.run(["shellcheck", "--format=gcc", *paths], cwd=folder, capture_output=True, text=True, check=False).stdout


def named_places(folder, paths):
    """Returns hosts and home folders that files name."""
    pattern = re.compile(r"https?://|/root/|/home/|deb\.debian\.org|pypi\.org|--index-url")
    found = []
    for path in paths:
        with open(os.path.join(folder, path), encoding="utf-8") as file:
            lines = [(number, pattern.search(line)) for number, line in enumerate(file, 1) if "json-schema.org" not in line]
        found += [f"{path}:{number}: {place.group()}" for number, place in lines if place]
    return found


# Phrases and names that hide a noun, and how many lines may still have them. A change that lowers a number lowers it here too.
HIDDEN_NOUNS = {r"(?i)\bso many\b": 0, r"\bof_[a-z]\w*": 59, r"(?i)\b(?:that|those) of\b": 231}
BRITISH = r"(?i)colour|cent(?:re|red)\b|licence|labelled|signalled|neighbour|favour|behaviour|\bgrey"


def found_words(folder, paths, words):
    """Returns the places in files where the pattern matches."""
    found = []
    for path in paths:
        with open(os.path.join(folder, path), encoding="utf-8") as file:
            found += [f"{path}:{number}: {word}" for number, line in enumerate(file, 1) for word in re.findall(words, line)]
    return found


class StyleTest(unittest.TestCase):
    def test_clang_format(self):
        paths = list(sources.files(sources.root(), (".h", ".cc", ".cu", ".cuh")))
        self.assertGreater(len(paths), 30, "the sources were not found")
        self.assertEqual(misformatted(sources.root(), paths), [], f"mend with: {CLANG_FORMAT} -i FILE...")

    def test_clang_format_can_fail(self):
        folder = os.environ["TEST_TMPDIR"]
        shutil.copy(os.path.join(sources.root(), ".clang-format"), folder)
        for name, text in (("good.cc", "int main() { return 0; }\n"), ("bad.cc", "int  main( ){return 0;}\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.assertEqual(misformatted(folder, ["good.cc", "bad.cc"]), ["bad.cc"])

    def test_format_of_build_files(self):
        paths, wrong = list(sources.files(sources.root(), "BUILD")), []
        self.assertGreater(len(paths), 30, "the BUILD files were not found")
        for path in paths:
            with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
                text = file.read()
            wrong += [path] if format_build.formatted(text) != text else []
        self.assertEqual(wrong, [], "mend with: .venv/bin/python tools/bazel/format_build.py FILE...")

    def test_format_of_build_files_can_fail(self):
        long = [f'"//base:name_{i}_of_a_library"' for i in range(5)]
        lines = "\n    ".join(["", ", ".join(long[:3]) + ",", ", ".join(long[3:]) + ","])
        good = f'# A comment.\na(name = "b")\n\na(name = "c", deps = [{lines}\n])\n'
        for bad in (good.replace('"b"', '\n    "b"'), good.replace(" = ", "="), good.replace(", ", ",\n"), good.replace("\n\n", "\n"), good + "\n\n"):
            self.assertNotEqual(bad, good)
            self.assertEqual(format_build.formatted(bad), good)
        self.assertEqual(format_build.formatted(good), good)
        loaded = f"load(\n    {', '.join(long[:3])},\n    {', '.join(long[3:])},\n)\n"
        self.assertEqual(format_build.formatted(f"load({', '.join(long)})\n"), loaded)
        reason = f'a(\n    name = "b",  # a reason\n    deps = [{", ".join(long)}],\n)\n'
        for kept in (reason, 'a(["b.h"])  # a reason\n', 'a(\n    ["b.h"],\n)  # a reason\n', 'a(b = ["c"] + (["d"] if E else []))\n',
                     f"a(b = [{', '.join(long)}] + (C or D))\n", f"{'a' * 120}()\n"):  # fmt: skip
            self.assertEqual(format_build.formatted(kept), kept)

    def test_scripts_parse(self):
        root = sources.root()
        scripts = list(sources.files(root, (".sh",))) + ["tools/strata", ".ci/run"]
        self.assertGreater(len(scripts), 5)
        for path in scripts:
            with self.subTest(path):
                subprocess.run(["bash", "-n", os.path.join(root, path)], check=True)
                shell = open(os.path.join(root, path), encoding="utf-8").readline()
                if os.access(os.path.join(root, path), os.X_OK):
                    self.assertTrue(shell.startswith("#!"), "an executable script without #!")

    def test_shellcheck(self):
        root = sources.root()
        scripts = list(sources.files(root, (".sh",))) + ["tools/strata", ".ci/run"]
        self.assertGreater(len(scripts), 5)
        self.assertEqual(shellcheck(root, scripts), "")

    def test_shellcheck_can_fail(self):
        folder = os.environ["TEST_TMPDIR"]
        for name, text in (("good.sh", 'echo "$1"\n'), ("bad.sh", "echo $1\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("#!/bin/bash\n" + text)
        self.assertEqual(shellcheck(folder, ["good.sh"]), "")
        self.assertRegex(shellcheck(folder, ["good.sh", "bad.sh"]), r"^bad\.sh:2:6: [^\n]*\[SC2086\]\n$")

    def test_pins_have_hashes(self):
        with open(os.path.join(sources.root(), "tools/requirements.txt"), encoding="utf-8") as file:
            pins = [line for line in file.read().replace("\\\n", " ").splitlines() if not line.startswith("#")]
        self.assertGreater(len(pins), 50)
        wanted = re.compile(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64}){1,4}")
        self.assertEqual([pin for pin in pins if not wanted.fullmatch(pin)], [])

    def test_names_no_host_and_no_home(self):
        """Packages come from the default sources of apt and pip, and paths from the environment. Links of pages are
        relative."""
        root = sources.root()
        paths = list(sources.files(root, (".h", ".cc", ".cu", ".py", ".sh", ".bzl", "strata", "BUILD", ".txt", ".yaml"))) + pages.paths(root)
        paths += [os.path.relpath(path, root) for path in glob.glob(root + "/.github/*/*")]
        self.assertEqual(named_places(root, [path for path in paths if path != "tests/style_test.py"]), [])

    def test_spelling(self):
        root = sources.root()
        paths = list(sources.files(root, (".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".bzl", "BUILD", ".yaml"))) + pages.paths(root)
        self.assertGreater(len(paths), 1000)
        self.assertEqual(found_words(root, [path for path in paths if path != "tests/style_test.py"], BRITISH), [])

    def test_hidden_nouns(self):
        root = sources.root()
        paths = list(sources.files(root, (".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".bzl", "BUILD"))) + pages.paths(root)
        paths = [path for path in paths if path not in ("tests/style_test.py", "CHANGELOG.md", "docs/style.md")]
        for words, most in HIDDEN_NOUNS.items():
            found = {place.rpartition(":")[0] for place in found_words(root, paths, words)}
            self.assertLessEqual(len(found), most, f"{len(found)} lines with {words}, at most {most}: write the noun, as docs/style.md says")

    def test_spelling_can_fail(self):
        folder = os.environ["TEST_TMPDIR"]
        with open(os.path.join(folder, "words.md"), "w", encoding="utf-8") as file:
            file.write("A centred, Labelled picture\nin the center\nhas a grey neighbour.\n")
        self.assertEqual(found_words(folder, ["words.md"], BRITISH),
                         ["words.md:1: centred", "words.md:1: Labelled", "words.md:3: grey", "words.md:3: neighbour"])

    def test_names_no_host_and_no_home_can_fail(self):
        folder = os.environ["TEST_TMPDIR"]
        with open(os.path.join(folder, "page.md"), "w", encoding="utf-8") as file:
            file.write("[here](docs/running.md)\n[there](https://example.org)\n/root/.bashrc and ~/.bashrc\n")
        self.assertEqual(named_places(folder, ["page.md"]), ["page.md:2: https://", "page.md:3: /root/"])


if __name__ == "__main__":
    unittest.main()
