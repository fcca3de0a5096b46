# SPDX-License-Identifier: MIT
"""Every demo holds, from an unpacked archive. Then what the demos wrote is damaged: each claim that was checked fails for one damage."""
import contextlib
import importlib
import io
import json
import os
import re
import shutil
import sys
import unittest
from unittest import mock

sys.path[:0] = [os.path.abspath("tools/demo"), os.path.abspath("tools"), os.path.abspath("tests/tools")]

import findings  # noqa: E402
import main  # noqa: E402
from archive import Archive  # noqa: E402
from results import Results  # noqa: E402

MOST_SECONDS = 600


def replaced(path, pattern, by):
    """Replaces the last match of a pattern in a file."""

    def damage(folder):
        with open(f"{folder}/{path}", encoding="utf-8", errors="replace") as file:
            text = file.read()
        *_, last = re.finditer(pattern, text, re.MULTILINE)
        with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
            file.write(text[:last.start()] + last.expand(by) + text[last.end():])

    return damage


def changed(path, key, change, which=-1):
    """Replaces a number in one of the JSON lines of a file that have the key."""

    def damage(folder):
        with open(f"{folder}/{path}", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        having = [record for record in records if key in record]
        having[which][key] = change(having[which][key])
        with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    return damage


def copied(source, path, key, which):
    """Replaces a number by the one at the same place of another file."""

    def damage(folder):
        value = [record[key] for record in Results(folder).rows(source) if key in record][which]
        changed(path, key, lambda _: value, which)(folder)

    return damage


def later(number):
    return number + 0.01


def last_loss(run):
    return changed(f"{run}/metrics.jsonl", "loss", later)


def all_losses(run, value):
    """The run learns nothing."""

    def damage(folder):
        for step in range(len(Results(folder).steps(run))):
            changed(f"{run}/metrics.jsonl", "loss", lambda _: value, step)(folder)

    return damage


def shorter(path):
    def damage(folder):
        os.truncate(f"{folder}/{path}", os.path.getsize(f"{folder}/{path}") // 2)

    return damage


def code(command, number):
    return replaced(f"{command}.code", r"\d+", str(number))


def weights(run):
    return changed(f"{run}/metrics.jsonl", "weights_sha256", lambda _: "0" * 64)


def no_levels_of_cpus(folder):
    with open(f"{folder}/levels.out", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(f"{folder}/levels.out", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({**row, "device": "cuda"}) + "\n" for row in rows)


DAMAGES = {
    "levels": [no_levels_of_cpus, all_losses("aten", 5.5), last_loss("torchscript"), last_loss("aot_inductor"),
               replaced("torchscript/kernels.txt", "torchscript", "aten"), replaced("aot_inductor/kernels.txt", "aot_inductor", "aten"),
               replaced("aten/kernels.txt", "aten", "triton")],
    "fusion": [changed("fused.json", "loss", later), changed("fused.json", "step_memory_bytes", lambda n: 2 * n),
               changed("parts.json", "predicted_peak_memory_bytes", lambda n: n + 4)],
    "attention": [*(replaced("shares.out", rf"^(  {re.escape(pattern)} in .*) [\d.]+ % of tiles", r"\1 12.5 % of tiles")
                    for pattern in importlib.import_module("attention").PATTERNS),
                  changed("same.json", "loss", later), copied("all.json", "less.json", "first_loss", 0)],
    "formats": [all_losses("float32", 5.5), *(damage for name in ("fp8", "mxfp8") for damage in (
        replaced(f"{name}/kernels.txt", " emulated|emulated", "exact"), changed(f"{name}/metrics.jsonl", "loss", lambda n: n + 0.1, 0),
        changed(f"{name}/metrics.jsonl", "loss", lambda n: n + 1)))],
    "checkpointing": [*(damage for name in ("selective", "full") for damage in (
        changed(f"{name}.json", "loss", later), changed(f"{name}.json", "predicted_peak_memory_bytes", lambda n: n + 4))),
                      changed("full.json", "step_memory_bytes", lambda n: 10 * n), changed("selective.json", "launches", lambda n: 1)],
    "sharding": [*(damage for ranks in (2, 4) for damage in (
        last_loss(f"on-{ranks}"), changed(f"on-{ranks}/metrics.jsonl", "weights_sha256", lambda _: "0" * 64, 0),
        replaced(f"on-{ranks}/memory.txt", r"^(  moments +)[\d,]+", r"\1 3,429,376"),
        shorter(f"on-{ranks}/checkpoints/step-00000020/rank-00001.safetensors")))],
    "graph": [code("refused", 0), replaced("refused.err", "needs GPUs", "is on"), lambda folder: os.makedirs(f"{folder}/refused")],
    "replay": [code("replay-healthy", 5), changed("flipped/metrics.jsonl", "loss", later, 5),
               replaced("replay-flipped.out", "step 12", "step 13"), replaced("locate.out", "rank 1", "rank 0"), code("locate", 0)],
    "restart": [replaced("killed.err", "restart 1 of", "reboot 1 of"), code("killed", 7), replaced("killed/error-1.json", '"rank": 1', '"rank": 0'),
                last_loss("killed"), weights("killed")],
    "compare": [code("compare-again", 1), last_loss("again"), replaced("compare-seed.out", "losses: part at step 1", "losses: part at step 3"),
                copied("first/metrics.jsonl", "seed/metrics.jsonl", "loss", 0), changed("first/metrics.jsonl", "loss", later, 0),
                replaced("compare-rate.out", "learning_rate", "weight_decay"), weights("again")],
    "advice": [replaced("advise-before.out", r"evaluation\.every=20", "evaluation.every=7"), replaced("advise-before.out", r"gain [\d.]+ ms", "gain 0.10 ms"),
               replaced("after/metrics.jsonl", "validation_loss", "tested_loss"), last_loss("after"),
               changed("after/metrics.jsonl", "milliseconds", lambda n: n + 1e9), replaced("advise-after.out", r"advice: \d+", "advice: 3")],
}


class DemosTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.environ["TEST_TMPDIR"]
        cls.kept = f"{cls.folder}/kept"
        archive = Archive(f"{cls.folder}/archive")
        cls.said, cls.code = archive.run("demo", "all", "--validate", "--keep", cls.kept, seconds=MOST_SECONDS + 120)

    def check(self, name, folder):
        """Returns the claims about the folder, without running a command."""
        with mock.patch.object(main.demo_of(name), "run", lambda lab: None):
            return main.found_by(name, folder, 0, print)

    def test_all_hold(self):
        print(self.said)
        self.assertEqual(self.code, 0, self.said)
        lines = re.findall(r"^(\w+): (\d+) of (\d+) claims hold", self.said, re.MULTILINE)
        self.assertEqual([name for name, _, _ in lines], [*main.DEMOS, "all"])
        self.assertEqual([held for _, held, _ in lines], [checked for _, _, checked in lines])
        self.assertLess(float(re.search(r"^all: .*; ([\d.]+) s$", self.said, re.MULTILINE).group(1)), MOST_SECONDS)

    def test_each_claim_can_fail(self):
        self.assertEqual(set(DAMAGES), set(main.DEMOS))
        for name, damages in DAMAGES.items():
            whole = [claim.says for claim in self.check(name, f"{self.kept}/{name}") if claim.state == findings.HOLDS]
            failed = set()
            for number, damage in enumerate(damages):
                folder = f"{self.folder}/damaged"
                shutil.copytree(f"{self.kept}/{name}", folder, symlinks=True)
                damage(folder)
                fails = {claim.says for claim in self.check(name, folder) if claim.state == findings.FAILS}
                shutil.rmtree(folder)
                with self.subTest(demo=name, damage=number):
                    self.assertTrue(fails, "the demo holds although what it reads is wrong")
                failed |= fails
            with self.subTest(demo=name):
                self.assertEqual([says for says in whole if says not in failed], [], "no damage makes these claims fail")

    def test_the_command_fails_and_says_why(self):
        """With a changed loss tools/strata demo ends with 1, and names the demo, what was expected and what came."""
        def run(lab):
            shutil.copytree(f"{self.kept}/sharding", lab.folder, symlinks=True, dirs_exist_ok=True)
            last_loss("on-2")(lab.folder)

        out = io.StringIO()
        with mock.patch.object(main.demo_of("sharding"), "run", run), mock.patch.object(sys, "argv", ["demo", "sharding", "--validate"]), \
                contextlib.redirect_stdout(out):
            self.assertEqual(main.main(), 1)
        self.assertRegex(out.getvalue(), r"^sharding: does not hold: losses on 2 ranks are those on 1\n"
                                         r"    expected: at most 0.0001 apart at each of 20 steps\n"
                                         r"    came: at most 0.01 apart, at step 20: [\d.]+ and [\d.]+\nsharding: 7 of 8 claims hold; ")

    def test_nothing_is_left_behind(self):
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("strata-demo-")], [])


if __name__ == "__main__":
    unittest.main()
