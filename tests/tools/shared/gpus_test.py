# SPDX-License-Identifier: MIT
"""The tools in Python and the launcher count the same GPUs."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "tools")
from gpus import gpus_here  # noqa: E402


class GpusTest(unittest.TestCase):
    def assert_count(self, expected, devices):
        said = subprocess.run(["bash", "-euc", '. tools/launcher/common.sh; gpus_here "$1"; has_gpu || true', "bash", devices], capture_output=True,
                              text=True, check=True).stdout
        self.assertEqual((gpus_here(devices), said), (expected, f"{expected}\n"))

    def test_devices_that_are_gpus_and_can_be_opened(self):
        with tempfile.TemporaryDirectory(suffix=" [1]") as devices:
            self.assert_count(0, devices)
            for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"):
                os.mknod(os.path.join(devices, name))
            self.assert_count(0, devices)
            for name in ("nvidia0", "nvidia1", "nvidia10"):
                os.mknod(os.path.join(devices, name))
            self.assert_count(3, devices)
            os.symlink("nowhere", os.path.join(devices, "nvidia2"))
            self.assert_count(3, devices)

    def test_this_machine(self):
        self.assert_count(gpus_here(), "/dev")


if __name__ == "__main__":
    unittest.main()
