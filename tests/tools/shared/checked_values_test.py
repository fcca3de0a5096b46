# SPDX-License-Identifier: MIT
"""Which values of a file are numbers, and which texts are objects."""
import math
import sys
import unittest

sys.path.insert(0, "tools")
from checked_values import is_finite, object_of  # noqa: E402


class CheckedValuesTest(unittest.TestCase):
    def test_numbers(self):
        for value in (0, -0.0, 5, -1.5, sys.float_info.max, -sys.float_info.max, 10**308):
            self.assertTrue(is_finite(value), value)
        for value in (True, False, None, "1", [1], math.nan, math.inf, -math.inf, 10**309, -(10**309)):
            self.assertFalse(is_finite(value), value)

    def test_numbers_up_to_a_size(self):
        for value, expected in ((7, True), (-7, True), (7.1, False), (-8, False), (math.nan, False), (True, False)):
            self.assertEqual(is_finite(value, 7), expected, value)

    def test_objects(self):
        self.assertEqual(object_of('{"a": [1, null]}\n'), {"a": [1, None]})
        self.assertEqual(object_of('{"ä": 1}'.encode()), {"ä": 1})
        self.assertEqual(object_of("{}"), {})
        for text in ("", "\n", "[]", "1", "null", '{"a": 1', '{"a": 1} {', "words", b'{"\xff": 1}', "[" * 100_000, '{"a":' * 100_000):
            self.assertIsNone(object_of(text), text[:20])


if __name__ == "__main__":
    unittest.main()
