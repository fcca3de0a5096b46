# SPDX-License-Identifier: MIT
"""Says from the metrics.jsonl of a run for how long saves stopped its training thread, and which share of the time they cost.

The share compares the steps from the first save to the last one with the median of quiet steps, during which no save was
under way. Where fewer than 20 steps are quiet, give a second run that saves nothing on its way (checkpoint.every=0).

    python3 tools/bench/save_cost.py runs/mine [runs/without_saves] [--most-ms 50] [--most-percent 3.5]

With limits it ends with 1 if one is exceeded. The save after the last step stops no training, so it is only printed."""
import argparse
import json
import statistics
import sys

WARM_UP = 10  # steps: allocation, the capture of the step, clocks that rise
FEWEST_QUIET = 20


class Run:
    """Milliseconds of steps, records of saves, and the steps in which they were on the disk."""

    def __init__(self, folder):
        self.folder, self.steps, self.saves, self.ended = folder, {}, {}, {}
        with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "loss" in line:
                    self.steps[line["step"]] = line["milliseconds"]
                if "save" in line:
                    self.saves[line["step"]] = line["save"]
                if "checkpoint" in line:
                    self.ended[line["checkpoint"]] = line["step"]

    def stops_training(self, save):
        """False for a save that no step follows. It waits for the save before, because there is nothing else to do."""
        return save < max(self.steps)

    def quiet(self):
        """The milliseconds of steps after the warm-up during which no save was under way."""
        last = max(self.steps)
        busy = {step for save in self.saves for step in range(save + 1, self.ended.get(save, last) + 1)}
        return [time for step, time in self.steps.items() if step >= min(self.steps) + WARM_UP and step not in busy]

    def between_saves(self):
        """The milliseconds of the steps that follow a save, up to the last save."""
        if not self.saves:
            return []
        return [time for step, time in self.steps.items() if min(self.saves) < step <= max(self.saves)]


def share(run, reference):
    """Returns the share of the time that saves cost, the mean step between saves, and the median quiet step."""
    quiet, times = (reference or run).quiet(), run.between_saves()
    if not times:
        sys.exit(f"{run.folder}: fewer than two saves, so there is no time from one to the next")
    if len(quiet) < FEWEST_QUIET:
        sys.exit(f"{run.folder}: {len(quiet)} steps without a save under way, expected at least {FEWEST_QUIET}; "
                 "give a second run that saves nothing on its way")
    mean, without = statistics.fmean(times), statistics.median(quiet)
    return mean / without - 1, mean, without


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("without_saves", nargs="?")
    parser.add_argument("--most-ms", type=float, default=float("inf"))
    parser.add_argument("--most-percent", type=float, default=float("inf"))
    options = parser.parse_args()
    run = Run(options.folder)
    reference = Run(options.without_saves) if options.without_saves else None
    for step, save in run.saves.items():
        end = f"on the disk after {run.ended[step] - step} steps" if step in run.ended else "never on the disk"
        what = "training stood still for" if run.stops_training(step) else "no step follows, it took"
        print(f"save of step {step}: {what} {save['milliseconds']:.1f} ms, {save['waited_milliseconds']:.1f} of them for the save before; {end}")
    cost, mean, without = share(run, reference)
    print(f"steps {min(run.saves) + 1}-{max(run.saves)}: {mean:.2f} ms on average, {without:.2f} without saves: they cost {100 * cost:.2f} %")
    longest = max(save["milliseconds"] for step, save in run.saves.items() if run.stops_training(step))
    if longest > options.most_ms or 100 * cost > options.most_percent:
        sys.exit(f"too much: at most {options.most_ms:g} ms and {options.most_percent:g} % are allowed")


if __name__ == "__main__":
    main()
