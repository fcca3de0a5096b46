# SPDX-License-Identifier: MIT
"""Damaged and hostile claims.yaml are refused in one sentence, and the shipped page is what the command makes."""
import datetime
import os
import unittest

from made_claims import ClaimsTest, claim

import claims_file
import page
from values import Estimate, interval, median_of_turns, ratio, verdict

MEASURED = {"value": 3.0, "low": 2.0, "high": 4.0, "turns": 5, "date": datetime.date(2026, 11, 26), "machine": "H200"}
SHIPPED = os.path.abspath("tools/claims/claims.yaml")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a]\nclaims: [*b, *b, *b]\nrefused: []\n"


class ShippedTest(unittest.TestCase):
    def test_the_page_is_what_the_command_makes(self):
        with open("docs/claims.md", encoding="utf-8") as file:
            self.assertEqual(file.read(), page.page(claims_file.read(SHIPPED)), "docs/claims.md is stale; make it with: tools/strata claims page")

    def test_the_file_is_as_the_command_writes_it(self):
        with open(SHIPPED, encoding="utf-8") as file:
            self.assertEqual(file.read(), claims_file.text_of(claims_file.read(SHIPPED)))

    def test_no_shipped_claim_is_refused(self):
        for each in claims_file.read(SHIPPED)["claims"]:
            self.assertNotIn("refused", self.verdicts(each), each["name"])
        for each in claims_file.read(SHIPPED)["refused"]:
            self.assertIn("refused", self.verdicts(each), each["name"])

    def verdicts(self, each):
        return [verdict(page.estimate_of(measured), each["least"]) for measured in claims_file.measurements(each)]


class FileTest(ClaimsTest):
    def refused(self, text, words):
        self.write("tools/claims/claims.yaml", text)
        self.assertIn(words, self.claims(expect=3))

    def test_what_is_written_is_read(self):
        two = [MEASURED, {**MEASURED, "machine": "H100"}]
        tree = {"claims": [claim(measured=two), claim("b")], "refused": [claim("c", measured=[{**MEASURED, "peer": 1.5}, {**MEASURED, "machine": "H100", "peer_failed": "why"}])]}
        self.write("tools/claims/claims.yaml", claims_file.text_of(tree))
        self.assertEqual(self.tree(), tree)

    def test_hostile_yaml(self):
        for text, words in (("", "the file is None"), ("[]", "the file is []"), ("claims: [", "cannot be read as YAML"),
                            (BOMB, "line 2 has an alias"), ("[" * 10**5, "cannot be read"), ("x" * 2**21, "more than 1048576 characters"),
                            ("claims: []\nclaims: []\nrefused: []\n", "the key claims stands twice"),
                            ("claims: 1\nrefused: []\n", "claims is no list"),
                            ("claims: []\n", "has no key refused"), ("claims: []\nrefused: []\nmore: 1\n", "has the key 'more'"),
                            ("claims: [2026-13-45]\nrefused: []\n", "cannot be read"),
                            ("claims: !!python/object/apply:os.system [ls]\n", "cannot be read"),
                            ("? [a]\n: b\n", "cannot be read"), (b"\xff\xfe\xfa", "is not UTF-8"),
                            ("claims: [\x07]\nrefused: []\n", "cannot be read")):
            self.refused(text, words)

    def test_entries_that_are_no_claims(self):
        commands = [("rm -rf .", "expected tools/strata bench"), ("tools/strata train x", "expected tools/strata bench"),
                    ("tools/strata bench step 'x", "a quote that does not end"), ("tools/strata bench step x --json=y", "names a file to write"),
                    ("python3 tools/bench/../../x.py", "expected tools/strata"), ("python3 -c x", "expected tools/strata"),
                    ("tools/strata bench step x\ny", "expected tools/strata"), (7, "expected tools/strata")]  # fmt: skip
        for command, words in commands:
            self.refused_claim(words, commands={"step": command})
        side = claim()["ours"]
        for words, changes in (
            ("other letters", {"name": "a b"}), ("other letters", {"name": 7}), ("expected a text of one line", {"claim": "a | b"}),
            ("expected a text of one line", {"claim": "a\nb"}), ("expected a text of one line", {"claim": "\x1b[2J"}),
            ("expected a text of one line", {"claim": ""}), ("gpus is True", {"gpus": True}), ("gpus is -1", {"gpus": -1}),
            ("unit is 'x'", {"unit": "x"}),
            ("least is 0", {"least": 0}), ("least is inf", {"least": float("inf")}), ("least is nan", {"least": float("nan")}),
            ("least is '2'", {"least": "2"}),
            ("sum is []", {"sum": []}), ("no rows of a command", {"ours": {"rows": "others"}}), ("no rows of a command", {"ours": 1}),
            ("ours has 'level': {'a': 1}", {"ours": {**side, "level": {"a": 1}}}), ("has the key 'more'", {"more": 1}),
            ("peer has no key sum", {"peer": {"name": "x", "theirs": side, "ours": side}}), ("measured is 'later'", {"measured": "later"}),
            ("measured is []", {"measured": []}), ("expected not yet, or a list", {"measured": MEASURED}),
            ("measured has one machine twice", {"measured": [MEASURED, MEASURED]}), ("measured is 'x', expected the keys", {"measured": ["x"]}),
            ("100 at most", {"measured": [{**MEASURED, "machine": str(number)} for number in range(101)]})):  # fmt: skip
            self.refused_claim(words, **changes)
        for words, changes in (
            ("not between low and high", {"low": 3.5}), ("measured.value is nan", {"value": float("nan")}),
            ("measured.date is not", {"date": "today"}), ("both peer and peer_failed", {"peer": 1.5, "peer_failed": "x"}), ("measured.peer_failed is", {"peer_failed": "a|b"}),
            ("peer_without and no peer", {"peer_without": "x"}), ("measured.peer_without is", {"peer": 1.5, "peer_without": "a|b"}),
            ("measured.machine is", {"machine": "<b>"}), ("not a number of turns", {"turns": 0}),
            ("measured.sets is 0", {"sets": 0}), ("measured.sets is True", {"sets": True})):
            self.refused_claim(words, measured=[{**MEASURED, "machine": "H100"}, {**MEASURED, **changes}])
        self.write_claims(claim(), claim())
        self.assertIn("two claims have the same name", self.claims(expect=3))

    def refused_claim(self, words, **changes):
        self.write_claims(claim(**changes))
        self.assertIn(words, self.claims(expect=3))


class ValuesTest(unittest.TestCase):
    def test_verdict(self):
        for low, high, expected in ((3.7, 9, "holds"), (1, 3.69, "refused"), (1, 3.7, "undecided"), (3.69, 4, "undecided")):
            self.assertEqual(verdict(Estimate(3, low, high), 3.7), expected)

    def test_interval_of_the_median(self):
        self.assertEqual([interval(range(count)) for count in (1, 3, 5, 8, 13)], [(0, 0), (0, 2), (0, 4), (1, 6), (3, 9)])
        self.assertEqual(median_of_turns([Estimate(value, 0, 99) for value in (5.0, 1.0, 2.0)]), (2, 1, 5))
        self.assertEqual(median_of_turns([Estimate(5.0, 1.0, 9.0)]), (5, 1, 9))

    def test_levels_and_directions(self):
        """The fastest level counts, with both directions. A level that lacks a direction, or a time, is no level."""
        rows = {"r": [{"level": "a", "us": 6}, {"level": "a", "us": 4}, {"level": "b", "us": 3}, {"level": "b", "us": 2}, {"level": "c", "us": 1},
                      {"level": "d", "us": 1}, {"level": "d", "not_timed": "why"}]}  # fmt: skip
        baseline, ours = {"rows": "r", "level": "a"}, {"rows": "r", "level": ["b", "c", "d"]}
        self.assertEqual(ratio(baseline, ours, ["us"], rows, "times"), (2, 2, 2))
        self.assertEqual(ratio(baseline, ours, ["us"], rows, "percent less"), (50, 50, 50))

    def test_quantiles(self):
        rows = {"r": [{"level": "a", "ms": 6, "ms_p10": 4, "ms_p90": 8}, {"level": "b", "ms": 3, "ms_p10": 2, "ms_p90": 4}]}
        self.assertEqual(ratio({"rows": "r", "level": "a"}, {"rows": "r", "level": "b"}, ["ms"], rows, "times"), (2, 1, 4))


if __name__ == "__main__":
    unittest.main()
