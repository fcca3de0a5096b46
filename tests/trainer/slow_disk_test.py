# SPDX-License-Identifier: MIT
"""How long steps take beside saves on a slow disk, each of whose syncs takes 0.4 s longer: the 99th percentile of step times of a run with
saves, and of the same run without. The table is printed. With STRATA_TEST_ALL saves may cost at most 5 %, and a run whose saves make training wait must
exceed that. Then steps count only if other programs left the processors alone, and pairs of runs are trained until enough of them count. Otherwise the
bound is wide: a run is short, so its 99th percentile is its longest step, and other tests run beside it."""

import json
import math
import shutil
import statistics
import unittest

from quiet_steps import OtherPrograms
from training_runs import EVERY, TrainingRuns

SLOW_DISK = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e"]
DELAY = "inject=fdatasync,fsync:delay_enter=%d"  # microseconds of a sync
# A step of about 0.15 s, and a checkpoint of 27 MB.
RUN = ["model.width=256", "model.heads=4", "model.feed_forward=768", "schedule={type: constant}", "evaluation.every=0", "log.every=1000", "run.threads=1"]
WARM_UP = 10  # steps
SECONDS_OF_A_SAVE = 2.6  # it waits for the disk four times
SAVES = 2
STEPS, MOST_PAIRS = 150, 40  # of the narrow bound
FEWEST_QUIET_STEPS = 600  # without saves, and with: six steps are above the 99th percentile
TURNS = 3
MOST_STEPS = 60  # between two saves: with more, the steps beside saves would be less than 1 %


def percentile(times):
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


def wide_bound(times):
    """A save that training waits for takes 1.6 s or more. The machine may be busy with other tests."""
    return 2 * percentile(times) + 200


def narrow_bound(times):
    return 1.05 * percentile(times)


class SlowDiskTest(TrainingRuns):
    @classmethod
    def setUpClass(cls):
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")

    def milliseconds(self, run, steps, every, delay=400_000, quiet=False):
        """Returns the times of steps, in milliseconds. `quiet`: of those in which other programs left the processors alone."""
        path = self.path(run, "metrics.jsonl")
        others = OtherPrograms(path)
        others.start()
        try:
            self.train(run, *RUN, "steps=%d" % steps, "checkpoint.every=%d" % every, ranks=1, batch=48, device="cpu", under=[*SLOW_DISK, DELAY % delay])
        finally:
            others.end()
        times, size = [], 0
        with open(path, "rb") as file:
            for text in file:
                line, before, size = json.loads(text), size, size + len(text)
                if "loss" in line and line["step"] > WARM_UP and (not quiet or others.is_quiet(before, size)):
                    times.append(line["milliseconds"])
        return times

    def steps_of_a_save(self, turn):
        """Returns how many steps take longer than a save, which takes longer on a machine that is busy."""
        usual = statistics.median(self.milliseconds("trial %d" % turn, 2 * WARM_UP, every=0))
        every = max(5, math.ceil(1000 * SECONDS_OF_A_SAVE * (turn + 1) / usual))
        self.assertLess(every, MOST_STEPS, "the steps are too short: a median of %.1f ms" % usual)
        return every

    def tell(self, name, times):
        numbers = ", median %.1f ms, 99th percentile %.1f ms" % (statistics.median(times), percentile(times)) if times else ""
        print("%s: %d steps%s" % (name, len(times), numbers), flush=True)

    def check_pair(self, name, steps, every):
        """Returns the times of steps without and with saves, or nothing if training waited for a save."""
        without = self.milliseconds(name + " without saves", steps, every=0, quiet=EVERY)
        beside = self.milliseconds(name + " with saves", steps, every, quiet=EVERY)
        if "training waits" in self.output:
            return None
        saves = [line["save"]["milliseconds"] for line in self.lines(name + " with saves") if "save" in line]
        self.assertEqual(len(saves), math.ceil(steps / every))
        self.tell(name + " without saves", without)
        self.tell(name + " with saves", beside)
        print("%d saves, one every %d steps; training stood still for at most %.1f ms" % (len(saves), every, max(saves)))
        return without, beside

    def expect_waits_found(self, without, bound, every):
        """Saves that come faster than a slower disk takes them make training wait. No bound may allow that."""
        often = max(1, every // 4)
        # A save waits for the disk four times, while `often` steps run. On a slow machine the disk is slower too.
        most_hidden = bound(without) + often * statistics.median(without)
        delay = max(1_000_000, math.ceil(1.5 * 1000 * most_hidden / 4))
        waiting = self.milliseconds("waiting", WARM_UP + 3 * often, often, delay)
        self.assertGreater(max(line["save"]["waited_milliseconds"] for line in self.lines("waiting") if "save" in line), 1000)
        self.tell("with saves that training waits for", waiting)
        self.assertGreater(percentile(waiting), bound(without))

    def check_pairs(self):
        """Returns the times without saves, those with saves, and how many steps lie between two saves. If training waited, saves are farther apart
        in the next turn."""
        for turn in range(TURNS):
            every = self.steps_of_a_save(turn)
            steps, times = STEPS if EVERY else max(SAVES * every, 2 * WARM_UP), ([], [])
            for number in range(MOST_PAIRS if EVERY else 1):
                pair = self.check_pair("turn %d pair %d" % (turn, number + 1), steps, every)
                if pair is None:
                    break
                times = [all_times + some for all_times, some in zip(times, pair)]
                if min(map(len, times)) >= (FEWEST_QUIET_STEPS if EVERY else 1):
                    return *times, every
            else:
                self.fail("in %d pairs other programs left the processors alone for %d and %d steps, expected %d" % (
                    MOST_PAIRS, *map(len, times), FEWEST_QUIET_STEPS))
        self.fail("training waited for saves in %d turns, the last with a save every %d steps" % (TURNS, every))

    def test_steps_beside_saves(self):
        bound = narrow_bound if EVERY else wide_bound
        without, beside, every = self.check_pairs()
        self.tell("all without saves", without)
        self.tell("all with saves", beside)
        self.assertLessEqual(percentile(beside), bound(without))
        if EVERY:  # beside other tests, steps may take longer than the waits
            self.expect_waits_found(without, bound, every)


if __name__ == "__main__":
    unittest.main()
