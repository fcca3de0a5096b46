# SPDX-License-Identifier: MIT
"""Tests the program check: exit codes, time, output, and its JSON Schema against another validator."""
import glob
import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

CHECK = "trainer/check"
SHIPPED = sorted(glob.glob("configs/*.yaml"))
QUICKSTART = "configs/quickstart.yaml"


def check(*arguments, **options):
    return subprocess.run([CHECK, *arguments], capture_output=True, text=True, timeout=20, **options)


def processor_seconds():
    """Processor time of the programs that have ended. Wall-clock time also passes while others compute."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_shipped_configurations_are_good_and_silent(self):
        self.assertGreaterEqual(len(SHIPPED), 5)
        for path in SHIPPED:
            result = check(path)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), path)

    def test_errors_go_to_stderr_with_exit_code_2(self):
        result = check(QUICKSTART, "stpes=3", "batch=17")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, "")
        self.assertIn("override 'stpes=3': stpes: unknown key; did you mean 'steps'?\n", result.stderr)
        self.assertIn("override 'batch=17': batch: 17 is not a multiple of micro_batch 8 x run.ranks 2 = 16", result.stderr)
        self.assertLess(len(result.stderr.splitlines()), 10)

    def test_usage_errors(self):
        for arguments in [[], ["--resolved"], ["--frobnicate", QUICKSTART], [QUICKSTART, "--ranks"],
                          ["--resolved", "--for-launcher", QUICKSTART]]:
            result = check(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("check CONFIG", result.stderr, arguments)

    def test_takes_less_than_200_milliseconds(self):
        bad = self.write("bad.yaml", "stpes: 3\nmodel: 7\n")
        for path in [QUICKSTART, bad]:
            times = []
            for _ in range(5):
                start = processor_seconds()
                check(path)
                times.append(processor_seconds() - start)
            self.assertLess(sorted(times)[2], 0.2, path)

    def test_keys_do_not_steer_the_terminal(self):
        said = check(self.write("escapes.yaml", '"\\e]0;owned\\a": 3\n')).stderr
        self.assertNotIn("\x1b", said)
        self.assertIn("?]0;owned?: unknown key", said)

    def test_links_neither_mpi_nor_libtorch(self):
        listed = subprocess.run(["ldd", CHECK], capture_output=True, text=True, check=True).stdout
        libraries = re.sub(r"\(0x[0-9a-f]+\)", "", listed)  # an address may hold the letters of a name
        self.assertIn("libc.so", libraries)
        self.assertIsNone(re.search("mpi|torch|c10|cuda|nccl", libraries), libraries)

    def facts(self, *arguments):
        result = check("--for-launcher", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return dict(fact.split("\t", 1) for fact in result.stdout.splitlines())

    def test_facts_for_the_launcher(self):
        facts = self.facts(QUICKSTART, "--ranks", "1", "run.folder=' a b '")
        self.assertEqual((facts["run.ranks"], facts["run.folder"], facts["run.device"]), ("1", " a b ", "cpu"))
        self.assertEqual((facts["kernels.default"], facts["kernels.plan"], facts["packages.ops"]), ("aten", "", ""))
        self.assertEqual((facts["run.restarts"], facts["run.overwrite"]), ("0", "false"))
        self.assertEqual(self.facts(QUICKSTART, "run.overwrite=true")["run.overwrite"], "true")
        self.assertEqual((facts["model.family"], facts["model.width"], facts["data.train"]), ("llama", "128", "data/bible/train.bin"))
        self.assertNotIn("data.train_images", facts)
        for wrong in ("stpes=3", r'run.folder="x\nrun.ranks\t3"'):  # no value can look like another fact
            result = check("--for-launcher", QUICKSTART, wrong)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", check(QUICKSTART, wrong).stderr))

    def test_facts_of_packages(self):
        plan = self.write("plan.yaml", "levels:\n  linear: cuda\n  adamw: aot_inductor\nmeasured:\n  - {op: linear, level: aot_inductor}\n")
        damaged = self.write("damaged.yaml", "levels: [")
        cases = {
            "{default: cuda, rms_norm: triton}": "", "{default: aot_inductor, linear: aten}": "all",
            "{rotary: aot_inductor, layers: [{only: 1, linear: aot_inductor}], modules: [{only: mlp, activation: aot_inductor}]}": "activation,linear,rotary",
            f"{{default: best, rotary: aot_inductor, plan: {plan}}}": "adamw,rotary", f"{{default: best, plan: {damaged}}}": "",
            "{default: best, linear: aot_inductor, plan: nowhere.yaml}": "linear"}
        for kernels, ops in cases.items():
            self.assertEqual(self.facts(QUICKSTART, "kernels=" + kernels)["packages.ops"], ops, kernels)

    def test_seen_targets_are_refused_only_for_training(self):
        full = [QUICKSTART, "model.attention=full"]
        self.assertEqual(check(*full).returncode, 0)
        for more in ([], ["--for-launcher"]):
            result = check(*more, "--to-train", *full)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("override 'model.attention=full': model.attention: position t is trained to predict token t + 1, and with `full` it sees "
                          "tokens after it; write `causal`; this is the pattern of layers 0-3\n", result.stderr)
        for path in SHIPPED:
            self.assertEqual(check("--to-train", path).returncode, 0, path)

    def test_resolved_reads_back(self):
        for path in SHIPPED:
            resolved = check("--resolved", path).stdout
            again = check("--resolved", self.write("resolved.yaml", resolved)).stdout
            values = [[line.split("  # ")[0] for line in text.splitlines()] for text in (resolved, again)]
            self.assertEqual(values[0], values[1])
            self.assertGreater(len(values[0]), 50)

    def test_manual(self):
        self.assertIn("optimizer.learning_rate", check("--help-keys").stdout)
        self.assertIn("| `optimizer.learning_rate` |", check("--reference").stdout)


class SchemaTest(unittest.TestCase):
    """Compares the results of the schema with those of check."""

    def setUp(self):
        self.assertIsNotNone(importlib.util.find_spec("check_jsonschema"), "needs check-jsonschema: tools/requirements.txt")
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.schema = os.path.join(self.folder, "schema.json")
        with open(self.schema, "w", encoding="utf-8") as file:
            file.write(check("--schema").stdout)

    def accepted(self, *paths):
        command = [sys.executable, "-m", "check_jsonschema", "--schemafile", self.schema, *paths]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertIn(result.returncode, (0, 1), result.stdout + result.stderr)
        return result.returncode == 0, result.stdout

    def test_is_a_schema(self):
        command = [sys.executable, "-m", "check_jsonschema", "--check-metaschema", self.schema]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.schema, encoding="utf-8") as file:
            self.assertFalse(json.load(file)["additionalProperties"])

    def test_accepts_shipped_configurations(self):
        good, output = self.accepted(*SHIPPED)
        self.assertTrue(good, output)

    def test_refuses_what_the_check_refuses(self):
        with open(QUICKSTART, encoding="utf-8") as file:
            text = file.read()
        changes = [("steps: 1200", "stpes: 1200"), ("steps: 1200", "steps: many"), ("steps: 1200", "steps: 0"),
                   ("batch: 16 ", "batch: 16.5 "), ("family: llama", "family: lama"), ("keep: 2", "keep: 1"),
                   ("type: cosine", "type: wsd"), ("final: 0.1", "decay: 3"), ("warmup: 50", "warmup: -1"),
                   ("[0.9, 0.95]", "[0.9]"), ("[0.9, 0.95]", "[0.9, 1.0]"), ("steps: none", "steps: nothing"),
                   ("gradient_checkpointing: none", "gradient_checkpointing: some"),
                   ("kernels: {default: aten}", "kernels: {layers: [{linear: aten}]}"), ("ranks: 2", "ranks: two"),
                   ("kernels: {default: aten}", "kernels: {layers: [{only: 0-3 step 0, linear: aten}]}"),
                   ("tied: true", "tied: 3"), ("folder: runs/quickstart", "folder: 3"), ("data: {type: text", "data: {type: txt")]
        paths = []
        for number, (before, after) in enumerate(changes):
            self.assertEqual(text.count(before), 1, before)
            path = os.path.join(self.folder, f"{number:02}.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(before, after))
            self.assertEqual(check(path).returncode, 2, after)
            paths.append(path)
        good, output = self.accepted(*paths)
        self.assertFalse(good)
        for path, (_, after) in zip(paths, changes):
            self.assertIn(path + "::", output, after)

    def test_accepts_every_form_of_a_value(self):
        with open(QUICKSTART, encoding="utf-8") as file:
            text = file.read()
        text = text.replace("gradient_checkpointing: none", "gradient_checkpointing: [0-1, 0-2 step 2, 1-3 step 2 selective]")
        text = text.replace("{type: cosine, warmup: 50, final: 0.1}", "{type: wsd, warmup: 50, decay: 100}")
        text = text.replace("kernels: {default: aten}", "kernels: {rms_norm: torchscript, layers: [{only: 1-3 step 2, linear: aten}]}")
        path = os.path.join(self.folder, "forms.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertEqual(check(path).returncode, 0, check(path).stderr)
        good, output = self.accepted(path)
        self.assertTrue(good, output)
