# SPDX-License-Identifier: MIT
"""Ranks that find other data under the same name, as hosts may that do not share a disk, are refused."""

import os
import subprocess
import unittest

from training_runs import TRAIN, TrainingRuns, write_tokens


class UnequalDataTest(TrainingRuns):
    def test_ranks_with_different_data_are_refused(self):
        command = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none"]
        for rank, tokens in enumerate((6000, 5000)):
            host = os.path.join(self.folder, "host%d" % rank)
            os.mkdir(host)
            for name in ("train.bin", "validation.bin"):
                write_tokens(os.path.join(host, name), [(i * i + 7 * (i // 5)) % 37 for i in range(tokens)])
            command += [] if rank == 0 else [":"]
            command += ["-n", "1", "-wdir", host, TRAIN, self.config("differ", 16), "run.device=cpu", "data.train=train.bin", "data.validation=validation.bin"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "ranks differ in their data, line 1: rank 0 has `.*`, rank 1 has `")


if __name__ == "__main__":
    unittest.main()
