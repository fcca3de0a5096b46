# SPDX-License-Identifier: MIT
"""Each line is sent once, in whatever order a run takes steps, saves, rolls back, is resumed, and is looked at."""
import itertools
import json
import os
import random
import sys
import tempfile
import unittest

sys.path[:0] = ["tools", "tools/report", "tools/follow"]
from place import Place  # noqa: E402


class MadeUpRun:
    """Writes metrics.jsonl as trainer/report/metrics.cc does. Each loss is unique, so that a line that is sent twice is seen."""

    def __init__(self, path, chance):
        self.path, self.chance = path, chance
        self.lines, self.step, self.saves, self.losses, self.every = [], 0, [], itertools.count(), chance.choice([3, 5])

    def add(self, **members):
        self.lines.append({"step": self.step, **members})

    def go_on(self):
        for _ in range(self.chance.randint(1, 6)):
            self.step += 1
            self.add(loss=next(self.losses), padding="x" * self.chance.choice([10, 900]))
            if self.step % self.every == 0:
                self.add(validation_loss=next(self.losses))
                self.add(save={})
                self.saves.append(self.step)
            elif self.step % self.every == 1 and self.saves:
                self.add(checkpoint=self.saves[-1])

    def go_back(self):
        """Forgets up to one of the saves, and returns to the last of those that are left."""
        self.saves = self.saves[:-1] if len(self.saves) > 1 and self.chance.random() < 0.3 else self.saves
        self.step = self.saves[-1]

    def roll_back(self):
        self.add(rollback={})
        self.go_back()

    def resume(self):
        self.go_back()
        kept = next((i for i, line in enumerate(self.lines) if line["step"] > self.step), len(self.lines))
        del self.lines[kept:]
        self.add(checkpoint=self.step)

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines)


def losses_of(lines):
    return [line[name] for line in lines for name in ("loss", "validation_loss") if name in line]


class PlaceTest(unittest.TestCase):
    def sent(self, folder, most):
        """Returns the losses of all new lines, as a command that is started once finds them."""
        place, losses = Place(folder, "mlflow"), []
        while (rows := place.new_rows(most)) != []:
            if rows is None:
                self.assertTrue(place.go_back_to_save(), "no other run has begun")
                continue
            losses += losses_of(record for _, record in rows)
            place.advance()
        os.close(place.lock)
        return losses

    def test_each_line_once(self):
        for seed in range(40):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                chance = random.Random(seed)
                run, sent = MadeUpRun(os.path.join(folder, "metrics.jsonl"), chance), []
                for _ in range(40):
                    act = chance.choices([run.go_on, run.roll_back, run.resume], [8, 1, 1])[0]
                    (act if run.saves else run.go_on)()
                    run.write()
                    if chance.random() < 0.5:
                        sent += self.sent(folder, chance.choice([1, 3, 50]))
                        self.assertLessEqual(set(losses_of(run.lines)), set(sent))
                self.assertEqual(len(sent), len(set(sent)))


if __name__ == "__main__":
    unittest.main()
