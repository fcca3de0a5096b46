# SPDX-License-Identifier: MIT
"""Checks that each commit that a page or the ledger of fuzzing names is in the history of this checkout, so that a reader finds what was measured."""
import os
import re
import subprocess
import unittest

import pages
import sources

ROOT = sources.root()
# A hash has a letter and a digit. It is a word of its own: parts of paths, names, anchors and options do not count.
HASH = re.compile(r"(?<![\w./#-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}(?![\w/-]|\.\w)")


def named_commits(text):
    return HASH.findall(text)


def missing(named, history):
    """Returns the commits that `history`, a list of full hashes, does not have."""
    known = {commit[:7]: [] for commit in history}
    for commit in history:
        known[commit[:7]].append(commit)
    return [name for name in named if not any(commit.startswith(name) for commit in known.get(name[:7], []))]


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)


class CommitsTest(unittest.TestCase):
    def test_are_ancestors(self):
        if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
            self.skipTest("this checkout has no history, or a part of it")
        history = git("rev-list", "HEAD").stdout.split()
        found = {}
        for path in [*pages.paths(ROOT), "tests/fuzz/ledger.tsv"]:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                found.update({f"{path} names {name}": name for name in named_commits(file.read())})
        self.assertGreater(len(found), 20, "the commits were not found")
        lost = set(missing(found.values(), history))
        self.assertEqual([words for words, name in found.items() if name in lost], [], "these are no ancestors of HEAD")

    def test_can_fail(self):
        history = ["53e769b" + "0" * 33, "53e769b" + "1" * 33, "e5631f0" + "2" * 33]
        text = "In bf16 (53e769b, e5631f02 and d349a11, Nov 22).\n| row | 67696a3, Nov 21 |\tjpeg\t1234567\t566b4e94+\n"
        self.assertEqual(named_commits(text), ["53e769b", "e5631f02", "d349a11", "67696a3", "566b4e94"])
        self.assertEqual(missing(named_commits(text), history), ["d349a11", "67696a3", "566b4e94"])
        self.assertEqual(missing(["53e769b1"], history), [])
        self.assertEqual(missing(["53e769b2"], history), ["53e769b2"])

    def test_what_is_no_commit(self):
        for text in ("plans/gpt2_124m-nvidia-h200-0123abcd.yaml", "`run-0123abc`", "20261125", "defaced", "[a](#0123abc)", "0x0123abcd", "0123abcd.json"):
            self.assertEqual(named_commits(text), [], text)


if __name__ == "__main__":
    unittest.main()
