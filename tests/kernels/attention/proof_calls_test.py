# SPDX-License-Identifier: MIT
"""Checks without a GPU that proof_calls.py has a call for each package that the cases of attention's proof request on a GPU."""
import subprocess
import sys
import unittest

sys.path[:0] = ["tools/aot_inductor", "tests/kernels/attention"]
import make_for_config  # noqa: E402
import proof_calls  # noqa: E402


def packages_of(calls):
    """Returns the packages of calls, as the program prints them."""
    requests = make_for_config.needed(["kernels/attention/attention.py"], calls, "sm_90", "2")
    return {f"{function} for {dtype}, widths {widths}" for _, function, dtype, widths in (request.split() for request in requests.values())}


class ProofCalls(unittest.TestCase):
    def test_cover_every_case(self):
        done = subprocess.run(["tests/kernels/attention/proof_packages"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        requested = set(done.stdout.splitlines())
        self.assertGreater(len(requested), 100)
        for dtype in ("float32", "bfloat16", "float16"):
            for widths in ("bits for {}, widths e=5,g=3,d=128", "bits_sinks for {}, widths e=4,g=2,d=128", "band_documents for {}, widths e=5,g=3,d=64"):
                self.assertLessEqual({f"{direction}_{widths.format(dtype)}" for direction in ("forward", "backward")}, requested)
        self.assertEqual(sorted(requested - packages_of(proof_calls.calls())), [], "proof_calls.py lacks calls of these packages")

    def test_a_call_that_is_left_out_shows(self):
        calls = list(proof_calls.calls())
        lost = packages_of(calls) - packages_of(call for call in calls if "bfloat16" not in call or "3/1 heads of 128, causal | prefix(20)" not in call)
        self.assertEqual(lost, {f"{direction}_bits for bfloat16, widths e=5,g=3,d=128" for direction in ("forward", "backward")})


if __name__ == "__main__":
    unittest.main()
