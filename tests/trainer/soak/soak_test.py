# SPDX-License-Identifier: MIT
"""A short soak ends as a run without faults does, a soak and replays say what deviates, and the parts of a restart are measured."""

import contextlib
import io
import json
import os
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.abspath("tests/tools"))

import replays  # noqa: E402
import restart_times  # noqa: E402
import soak  # noqa: E402
from archive import Archive  # noqa: E402
from training_runs import TrainingRuns  # noqa: E402

FOLDER = os.environ["TEST_TMPDIR"]
KINDS = "kill_rank,terminate,bit"


class SoakTest(unittest.TestCase):
    def test_a_few_faults_change_nothing(self):
        archive = Archive(FOLDER + "/archive")
        arguments = soak.parse(["--families", "language", "--kinds", KINDS, "--faults", "3", "--steps", "150", "--long", "0",
                                "--timeout", "60", "--launcher", archive.path("tools/strata")])
        words = io.StringIO()
        with contextlib.redirect_stdout(words):
            code = soak.soak(arguments, {**os.environ, "STRATA_PYTHON": sys.executable})
        self.assertEqual(code, 0, words.getvalue())
        self.assertRegex(words.getvalue(), r"(?m)^[3-5] faults of 3 kinds in 1 runs of 1 families, weights and losses equal, .* 0 deviations$")
        self.assertRegex(words.getvalue(), r"(?m)^ +\d+ language-0  SIGKILL of a rank, rank [01], .*, exit code 137, .* s to stop")


class RestartTimesTest(unittest.TestCase):
    def test_the_parts_of_a_restart_make_up_its_time(self):
        words = io.StringIO()
        with contextlib.redirect_stdout(words):
            restart_times.main(["--kills", "1", "--launcher", Archive(FOLDER + "/archive").path("tools/strata")], {**os.environ, "STRATA_PYTHON": sys.executable})
        *parts, together = map(float, re.findall(r"median +([\d.]+) s", words.getvalue()))
        self.assertEqual(len(parts), len(restart_times.PARTS), words.getvalue())
        self.assertGreaterEqual(min(parts), 0)
        self.assertGreaterEqual(parts[2], 1)  # the launcher's pause
        self.assertAlmostEqual(sum(parts), together, delta=0.05)


class ReplaysTest(unittest.TestCase):
    ARGUMENTS = ["--families", "language", "--replays", "1", "--flips", "1", "--steps", "12", "--beside", "1"]

    def replay(self, launcher):
        words = io.StringIO()
        with contextlib.redirect_stdout(words), mock.patch.object(replays, "STEPS", 40):
            code = replays.replays(replays.parse([*self.ARGUMENTS, "--launcher", launcher]), {**os.environ, "STRATA_PYTHON": sys.executable})
        return code, words.getvalue()

    def test_replays_are_equal_and_a_flipped_bit_is_found(self):
        code, words = self.replay(Archive(FOLDER + "/archive").path("tools/strata"))
        self.assertEqual(words, "1 of 1 replays equal bit for bit, of 1 runs; flipped bits found to the step: 1 of 1, to rank and layer: 1 of 1; "
                                "0 flips changed nothing; 0 deviations\n")
        self.assertEqual(code, 0)

    def test_what_deviates_is_said(self):
        def strata(replays, command, folder, *words):
            last = "different: step 900, rank 7, layer 9" if "flip" in folder else "equal within rounding: data, loss and gradient norm of step 1; loss"
            return last, 0, ""

        with mock.patch.object(replays.Replays, "strata", strata), mock.patch.object(TrainingRuns, "hashes", lambda runs, run: {12: run}):
            code, words = self.replay("tools/strata")
        self.assertEqual(code, 1)
        self.assertEqual(words.count("DEVIATION: a replay of language-on-"), 1, words)
        self.assertEqual(words.count("different: step 900, rank 7, layer 9\n"), 2, words)
        self.assertIn("0 of 1 replays equal bit for bit, of 1 runs; flipped bits found to the step: 0 of 1, to rank and layer: 0 of 1; "
                      "0 flips changed nothing; 3 deviations", words)

    def test_a_flip_that_changes_nothing_is_found_to_its_place(self):
        def strata(replays, command, folder, *words):
            return "equal: data, loss and gradient norm of steps 1 to %s, and the weights after step 10, bit for bit" % words[1], 0, ""

        with mock.patch.object(replays.Replays, "strata", strata), mock.patch.object(TrainingRuns, "hashes", lambda runs, run: {12: ""}):
            code, words = self.replay("tools/strata")
        self.assertEqual(code, 1)  # because of its place
        self.assertIn("1 of 1 replays equal bit for bit", words)
        self.assertIn("found to the step: 0 of 0, to rank and layer: 0 of 1; 1 flips changed nothing; 1 deviations", words)


class ComparedRunsTest(TrainingRuns):
    """Pairs of finished runs, of which one was changed by hand."""

    def run_with(self, name, *records, files=()):
        run = self.compared.run_of("language", name)
        os.makedirs(run.folder)
        for path, text in [("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in records)), *((path, "") for path in files)]:
            with open(run.path(path), "w", encoding="utf-8") as file:
                file.write(text)
        with open(run.folder + ".log", "w", encoding="utf-8"):
            pass
        return run

    def deviations(self, *records, files=()):
        self.compared = soak.Soak(soak.parse(["--steps", "2"]), self, "tools/strata", dict(os.environ))
        steps = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}, {"step": 2, "weights_sha256": "ab"}]
        clean = self.run_with("clean%d" % self.made, *steps)
        run = self.run_with("run%d" % self.made, *(records or steps), files=files)
        self.made += 1
        with contextlib.redirect_stdout(io.StringIO()):
            self.compared.compare(run, clean)
        return self.compared.deviations

    def test_what_differs_is_said(self):
        self.made = 0
        hashed = {"step": 2, "weights_sha256": "ab"}
        self.assertEqual(self.deviations(), [])
        self.assertIn("records differ", self.deviations({"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25000000000000006}, hashed)[0])
        self.assertIn("records differ", self.deviations({"step": 1, "loss": 0.5}, hashed)[0])
        self.assertIn("weights differ", self.deviations({"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}, {"step": 2, "weights_sha256": "ac"})[0])
        self.assertIn("weights differ", self.deviations({"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25})[0])
        self.assertIn("temporary files", self.deviations(files=["resolved.yaml.1.tmp"])[0])

    def test_what_grows_is_said(self):
        self.made = 0
        self.deviations()
        run = self.run_with("growing")
        run.samples = {(0, 1): [(seconds, 100000 + 4000 * seconds, 12) for seconds in range(60)],
                       (1, 2): [(seconds, 100000, 12 + seconds) for seconds in range(60)]}
        with contextlib.redirect_stdout(io.StringIO()):
            self.compared.expect_flat(run, 0)
        self.assertEqual([words.split(" grew")[0] for words in self.compared.deviations], ["resident KiB of 0", "open files of 1"])


if __name__ == "__main__":
    unittest.main()
