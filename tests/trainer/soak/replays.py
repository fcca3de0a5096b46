# SPDX-License-Identifier: MIT
"""Replays random steps of runs, and finds bits that were flipped on purpose.

    .venv/bin/python tests/trainer/soak/replays.py --replays 300 --flips 60 --seed 1

needs the built programs. Models of text, of images and of a graph are trained on 1 and 2 ranks. Each replay must be equal bit for
bit. A flipped bit of a weight, a gradient or an activation must be found to its step, and then to its rank and layer. Only a flip
that changes no weight at the end, as in a token that nothing reads, may be found to its place alone. It ends with 1 if one of these
does not hold. STRATA_TEST_DEVICE=cuda and STRATA_TEST_RANKS, the number of GPUs, run it on GPUs."""

import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from training_runs import DEVICE, FAMILIES, TrainingRuns  # noqa: E402

STEPS, EVERY = 200, 20  # of a run that is replayed; all of its checkpoints are kept
LAYERS = 3
MOST_SECONDS = 600  # of one command
SETTINGS = ["evaluation.every=0", "log.every=100", "run.device=" + DEVICE, "run.deterministic=%s" % ("true" if DEVICE == "cuda" else "false")]
# A value that is dropped would hide a flip in it.
WITHOUT_DROPPING = ["model.dropout=0"]
PLACES = {
    "weight": r"weights of group (blocks|layers)\.%d: ",
    "gradient": r"gradients of group (blocks|layers)\.%d: ",
    "activation": r"layer %d, forward: (branch|residual) that the layer returns ",
}


class Replays:
    def __init__(self, arguments, runs, environment):
        self.arguments, self.runs = arguments, runs
        self.launcher = os.path.abspath(arguments.launcher)
        self.environment = {**environment, "STRATA_FAULTS": "1"}
        self.random = random.Random(arguments.seed)

    def strata(self, *words):
        """Returns (the last line that the command prints, which is the verdict of a replay; its exit code; all that it said)."""
        done = subprocess.run([self.launcher, *words], cwd=os.path.dirname(os.path.dirname(self.launcher)), env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=MOST_SECONDS, check=False)
        return (done.stdout.splitlines() or [""])[-1], done.returncode, done.stdout + done.stderr

    def verdict(self, *words):
        """Returns the verdict of a replay, or what it said if it gave none."""
        last, code, said = self.strata("replay", *words)
        return last if code in (0, 3, 5) else "exit code %d: %s" % (code, said)

    def train(self, name, family, ranks, *overrides):
        of_family = [text.format(data=self.runs.data) for text in FAMILIES[family]]
        _, code, said = self.strata("train", self.runs.config(name, 16), "--ranks", str(ranks), *SETTINGS, *of_family, *overrides)
        if code:
            raise RuntimeError("the run %s ended with %d: %s" % (name, code, said))
        return self.runs.path(name)

    def trained(self, family, ranks):
        return self.train("%s-on-%d" % (family, ranks), family, ranks, "steps=%d" % STEPS, "checkpoint={every: %d, keep: %d}" % (EVERY, STEPS // EVERY))

    def replay(self, folder, step, first):
        """Returns a sentence about what deviates, or nothing."""
        verdict = self.verdict(folder, "--step", str(step), *first)
        equal = re.fullmatch(r"equal: data, loss and gradient norm of steps? (\d+ to )?%d\b.*, bit for bit" % step, verdict)
        return None if equal else "a replay of %s, step %d: %s" % (os.path.basename(folder), step, verdict)

    def weights(self, name, family, ranks, *fault):
        """Trains for a flip. Returns the folder of the run, and the hash of its last weights."""
        depth = ["model.stochastic_depth=0"] if family == "vision" else []
        folder = self.train(name, family, ranks, "steps=%d" % self.arguments.steps, "checkpoint.every=0", *WITHOUT_DROPPING, *depth, *fault)
        return folder, self.runs.hashes(name)[self.arguments.steps]

    def flip(self, number, kind, family, ranks, place, clean):
        """Returns whether the flip changed the last weights, and sentences: what deviates in the step that is found, and in the place."""
        step, rank, layer = place
        folder, weights = self.weights("flip-%d" % number, family, ranks, "fault={at: step %d rank %d layer %d, kind: flip_%s}" % (step, rank, layer, kind))
        name = "%s on %d ranks, flip_%s at step %d, rank %d, layer %d: " % (family, ranks, kind, step, rank, layer)
        found = self.verdict(folder, "--step", str(self.arguments.steps))
        located = self.verdict(folder, "--step", str(step), "--locate")
        changed = weights != clean.result()[1]
        right = (re.match("different: step %d, " % step, found) or not changed and found.startswith("equal: "),
                 re.match("different: step %d, rank %d, " % (step, rank) + PLACES[kind] % layer, located))
        return changed, *(None if match else name + words for match, words in zip(right, (found, located)))

    def main(self):
        counts = self.runs.some_ranks(1, 2)
        cases = [(family, ranks) for family in self.arguments.families for ranks in counts]
        drawn = [(self.random.choice(cases), self.random.randint(1, STEPS), self.random.choice([[], [], [], ["--from", "0"]]))
                 for _ in range(self.arguments.replays)]
        flips = []
        for number in range(self.arguments.flips):
            family, ranks = self.random.choice(cases)
            place = self.random.randint(1, self.arguments.steps), self.random.randrange(ranks), self.random.randrange(LAYERS)
            flips.append((number, list(PLACES)[number % len(PLACES)], family, ranks, place))
        with concurrent.futures.ThreadPoolExecutor(self.arguments.beside) as pool:
            clean = {case: pool.submit(self.weights, "clean-%s-%d" % case, *case) for case in cases if any(case == flip[2:4] for flip in flips)}
            found = pool.map(lambda flip: self.flip(*flip, clean[flip[2:4]]), flips)
            trained = {case: pool.submit(self.trained, *case) for case in cases if any(case == replay[0] for replay in drawn)}
            folders = {case: future.result() for case, future in trained.items()}
            replayed = list(pool.map(lambda replay: self.replay(folders[replay[0]], *replay[1:]), drawn))
            changed, steps, places = [list(column) for column in zip(*found)] or [[], [], []]
        deviations = [words for words in replayed + steps + places if words]
        for words in deviations:
            print("DEVIATION: " + words)
        seen = [sentence for sentence, of_flip in zip(steps, changed) if of_flip]
        print("%d of %d replays equal bit for bit, of %d runs; flipped bits found to the step: %d of %d, to rank and layer: %d of %d; "
              "%d flips changed nothing; %d deviations" % (replayed.count(None), len(replayed), len(folders), seen.count(None), len(seen),
                                                         places.count(None), len(places), changed.count(False), len(deviations)))
        return 1 if deviations else 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=300)
    parser.add_argument("--flips", type=int, default=60)
    parser.add_argument("--steps", type=int, default=1000, help="of a run with a flipped bit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beside", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="how many commands run at once")
    parser.add_argument("--families", type=lambda text: text.split(","), default=["language", "vision", "graph"])
    parser.add_argument("--launcher", default="tools/strata")
    return parser.parse_args(arguments)


def replays(arguments, environment):
    """Trains, replays, and returns the exit code."""
    runs = TrainingRuns()
    runs.setUp()
    try:
        return Replays(arguments, runs, environment).main()
    finally:
        runs.tearDown()


if __name__ == "__main__":
    sys.exit(replays(parse(sys.argv[1:]), dict(os.environ)))
