# SPDX-License-Identifier: MIT
"""Compares the loss scale of 10,000 steps with the scale of torch.amp.GradScaler for the same overflows: alone, in bursts, and none for long."""

import math
import os
import random
import subprocess
import unittest

import torch

SEQUENCE = os.path.abspath("tests/trainer/precision/loss_scale_sequence")
STEPS = 10_000


def scales_here(keys, letters):
    command = [SEQUENCE, *map(repr, (keys["init_scale"], keys["growth_factor"], keys["backoff_factor"], keys["growth_interval"]))]
    done = subprocess.run(command, input=letters, capture_output=True, text=True, timeout=100, check=True)
    return torch.tensor([float(line) for line in done.stdout.split()], dtype=torch.float32).tolist()  # nine digits name one float32


def scales_there(keys, letters):
    """An r is a scaler that goes on from a state, as a resumed run of PyTorch has one."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight])
    scaler = torch.amp.GradScaler("cpu", **keys)
    scales = []
    for letter in letters:
        if letter == "r":
            state = scaler.state_dict()
            scaler = torch.amp.GradScaler("cpu", **keys)
            scaler.load_state_dict(state)
            continue
        scales.append(scaler.scale(torch.ones(())).item())
        weight.grad = torch.tensor([math.inf if letter == "1" else scales[-1]])
        scaler.step(optimizer)
        scaler.update()
    return scales


def overflows(draw, keys):
    """Steps overflow more often above a limit, as gradients of float16 do, so the scale goes up and down between bounds. Bursts take
    it down to 1, where Strata takes no scale for the cause. Then none overflows until it has grown. Now and then the run is resumed."""
    letters, scale, finite, burst, quiet = [], keys["init_scale"], 0, 0, 0
    for _ in range(STEPS):
        if draw.random() < 0.002:
            burst = draw.randint(2, 30)
        if draw.random() < 0.002:
            quiet = 5 * keys["growth_interval"]
        wanted = burst > 0 or (quiet == 0 and draw.random() < (0.6 if scale > keys["init_scale"] else 0.02))
        found = wanted and scale * keys["backoff_factor"] >= 1 or scale > 2.0**30
        burst, quiet = max(burst - 1, 0), max(quiet - 1, 0)
        letters.append("1" if found else "0")
        if draw.random() < 0.01:
            letters.append("r")
        finite = 0 if found else finite + 1
        if found:
            scale *= keys["backoff_factor"]
        elif finite == keys["growth_interval"]:
            scale, finite = scale * keys["growth_factor"], 0
    return "".join(letters)


class GradScalerTest(unittest.TestCase):
    cases = (
        {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 20},
        {"init_scale": 1024.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3},
        {"init_scale": 30000.0, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 7},  # products are rounded to float32
        {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 1})

    def test_the_scale_of_each_step_is_that_of_grad_scaler(self):
        for keys in self.cases:
            seed = int(os.environ.get("STRATA_TEST_SEED") or random.SystemRandom().randrange(2**32))
            with self.subTest(**keys, seed=seed):
                letters = overflows(random.Random(seed), keys)
                ours, theirs = scales_here(keys, letters), scales_there(keys, letters)
                self.assertEqual((len(ours), len(theirs)), (STEPS, STEPS))
                different = [step for step in range(STEPS) if ours[step] != theirs[step]]
                self.assertEqual(different[:5], [], "steps whose scales differ")
                grown = sum(after > before for before, after in zip(theirs, theirs[1:]))
                shrunk = sum(after < before for before, after in zip(theirs, theirs[1:]))
                self.assertGreater(min(grown, shrunk), 50)
                self.assertGreater(letters.count("r"), 50)
                self.assertIn("1" * 5, letters.replace("r", ""))

    def test_another_interval_is_seen(self):
        for keys in self.cases:
            letters = overflows(random.Random(1), keys)[:1000]
            other = {**keys, "growth_interval": keys["growth_interval"] + 1}
            self.assertNotEqual(scales_here(other, letters), scales_there(keys, letters))

    def test_a_scale_below_infinity_stays(self):
        keys = {"init_scale": 1e9, "growth_factor": 1024.0, "backoff_factor": 0.5, "growth_interval": 2}
        letters = "0" * 40 + "r" + "0" * 10 + "1" + "0" * 10
        ours = scales_here(keys, letters)
        self.assertEqual(ours, scales_there(keys, letters))
        self.assertLess(max(ours), math.inf)
        self.assertGreater(max(ours), 1e35)


if __name__ == "__main__":
    unittest.main()
