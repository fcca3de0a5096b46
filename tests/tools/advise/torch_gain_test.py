# SPDX-License-Identifier: MIT
"""The predicted gain of an activation by hand beside the measured one, and no large gain where there is none. torch_gains.py also
compares attention, whose prediction was out of bounds on a machine with load: docs/advice.md has the numbers."""
import os
import statistics
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch_gains  # noqa: E402
from torch import nn  # noqa: E402

warnings.simplefilter("ignore")


class GainTest(unittest.TestCase):
    def test_an_activation_by_hand(self):
        gain = torch_gains.activation_by_hand()
        self.assertTrue(gain.holds, gain)

    def test_an_mlp_with_nothing_to_gain(self):
        """Its products run at the best level already, so less than a third may be predicted, even where other programs disturb."""
        model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256))
        predicted, (whole,) = torch_gains.measured(torch_gains.grouping_of(model, torch.rand(512, 256)))
        self.assertLess(predicted, statistics.median(whole) / 3)

    def test_bounds_can_fail(self):
        for gain, holds in (((10, 5, 5, 5), True), ((10, 5, 5, 1.6), False), ((10, 5, 5, 10.1), False), ((10, 9, 1, 1), False), ((10, 5, 5, 0), False)):
            self.assertEqual(torch_gains.Gain(*gain).holds, holds, gain)


if __name__ == "__main__":
    unittest.main()
