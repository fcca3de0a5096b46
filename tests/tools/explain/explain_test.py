# SPDX-License-Identifier: MIT
"""Checks `tools/strata explain`: every op and every level that exists is explained, with numbers that are those of the op."""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path[:0] = ["tests", "tools/explain"]
import kernel_resources
import op_sources
import sources

TMP = os.environ["TEST_TMPDIR"]
SENTENCE = re.compile(r"\w[^.]*\s[^.]*\s[^.]*\w.*\.")  # three words or more, and a period
PLAN = """
config: configs/some.yaml
device: Some GPU
torch: 2.11.0
kernels: 0123456789abcdef
model: 0123456789abcdef
levels: {rms_norm: cuda}
measured:
  - {op: add_rms_norm, shape: 16x8, level: cuda, uses: 3, forward: 12.5, backward: 20, error: 0.25}
  - {op: add_rms_norm, shape: 16x8, level: triton, not_timed: "it said no"}
  - {op: linear, shape: 16x8->24, level: cuda, forward: 77.7, backward: 1, error: 0.5}
"""


def op_facts(*arguments):
    """Returns (exit code, output, errors)."""
    device = [] if "--device" in arguments else ["--device", "cpu"]
    result = subprocess.run(["tools/explain/op_facts", *device, *arguments], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


def unexplained(facts, of_sources):
    """The levels of an op that exist on some device and have no sentence."""
    texts = of_sources.level_texts(facts["op"])
    for level in facts["levels"]:
        if level["devices"] and not any(SENTENCE.search(text) for _, text in texts[level["level"]]):
            yield f"{facts['op']}: no file of level {level['level']} begins with a sentence about it"


class ExplainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = op_sources.Sources(sources.root())

    def facts(self, *arguments):
        code, output, errors = op_facts(*arguments)
        self.assertEqual((code, errors), (0, ""))
        return json.loads(output)

    def explain(self, *arguments):
        """Returns the text for a user."""
        facts = json.dumps(self.facts(*arguments))
        result = subprocess.run([sys.executable, "tools/explain/explain.py", sources.root(), os.getcwd()], input=facts, capture_output=True,
                                text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def refused(self, *arguments):
        code, output, errors = op_facts(*arguments)
        self.assertEqual((code, output), (2, ""))
        return errors

    def test_every_op_and_every_level_is_explained(self):
        ops = self.facts()["ops"]
        self.assertGreater(len(ops), 15)
        levels = set()
        for facts in ops:
            op = facts["op"]
            with self.subTest(op):
                self.assertEqual(list(unexplained(facts, self.sources)), [])
                self.assertRegex(self.sources.formula(op), rf"^{op}\(.*\): \S")
                self.assertRegex(self.sources.definition(op), SENTENCE)
                self.assertRegex(self.sources.contract(op), SENTENCE)
                self.assertTrue(facts["shapes"], "no shape has its work")
                self.assertGreater(facts["shapes"][0]["forward"]["bytes"], 0)
                levels.update(level["level"] for level in facts["levels"] if level["devices"])
        self.assertEqual(levels, set(op_sources.LEVELS))
        self.assertEqual(set(self.sources.rows()), levels)

    def test_the_page_is_that_of_the_sources(self):
        code, facts, _ = op_facts()
        self.assertEqual(code, 0)
        page = subprocess.run([sys.executable, "tools/explain/page.py", sources.root()], input=facts, capture_output=True, text=True, check=True).stdout
        make = "tools/strata explain --page > docs/ops.md"
        self.assertTrue(self.sources.read("docs/ops.md") == page, f"docs/ops.md is stale; make it anew with: {make}")
        self.assertIn(make, self.sources.read("CONTRIBUTING.md"))
        self.assertEqual(page.count("\n### `"), 5 * len(op_sources.LEVELS))

    def test_a_level_without_a_sentence_is_found(self):
        class Silent(op_sources.Sources):
            def read(self, path):
                text = super().read(path)
                return text.replace("Level aten of adamw:", "") if path.endswith("/adamw.cc") else text

        self.assertEqual(list(unexplained(self.facts("adamw"), Silent(sources.root()))),
                         ["adamw: no file of level aten begins with a sentence about it"])

    def test_least_work(self):
        text = self.explain("rms_norm", "--shape", "2048x1024", "--dtype", "fp32")
        elements, rows, width = 2048 * 1024, 2048, 1024
        forward = 4 * (2 * elements + width + rows)  # reads x and weight, writes y and rstd
        self.assertIn("  2048x1024 in fp32\n", text)
        self.assertIn(f"forward: {forward / 1e6:.3g} MB, no matrix product", text)
        product = self.facts("linear")["shapes"][0]
        rows, inputs, outputs = map(int, re.match(r"(\d+)x(\d+)->(\d+)", product["shape"]).groups())
        self.assertEqual(product["forward"]["flops"], 2 * rows * inputs * outputs)
        other, = self.facts("linear", "--shape", "3x5->7 relu bias")["shapes"]
        self.assertEqual(other["forward"]["flops"], 2 * 3 * 5 * 7)
        half = self.facts("rms_norm", "--shape", "2048x1024")["shapes"][0]["forward"]["bytes"]
        self.assertEqual(half, 2 * (2 * elements + width) + 4 * 2048)

    def test_the_dtypes_of_a_configuration(self):
        path = os.path.join(sources.root(), "configs/llama_100m.yaml")
        norm, = self.facts("sum_of_squares", "--config", path)["shapes"]  # of gradients in fp32
        self.assertEqual((norm["dtype"], norm["forward"]["bytes"]), ("fp32", 4 * int(norm["shape"])))
        self.assertEqual({shape["dtype"] for shape in self.facts("linear", "--config", path)["shapes"]}, {"bf16"})
        self.assertEqual({shape["dtype"] for shape in self.facts("linear", "--config", path, "--dtype", "fp16")["shapes"]}, {"fp16"})

    def test_an_op_without_gradients_is_not_differentiated(self):
        self.assertNotIn("Differentiated", self.explain("adamw"))
        text = self.explain("cross_entropy")
        self.assertIn("Differentiated by autograd", text)
        self.assertNotIn("](", text)

    def test_a_reader_that_stops(self):
        facts = json.dumps(self.facts("linear"))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            result = subprocess.run([sys.executable, "tools/explain/explain.py", sources.root(), os.getcwd()], input=facts, stdout=closed,
                                    stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_text_of_an_op(self):
        text = self.explain("linear_cross_entropy")
        self.assertIn("loss = cross_entropy(softcap * tanh(hidden weight^T / softcap), ...)", " ".join(text.split()))
        self.assertIn("aten: exists here; devices: CPU, GPU", text)
        self.assertIn("cuda: not here, this level is GPU code; devices: GPU", text)
        self.assertRegex(text, r"triton: not here, .*; devices: none")
        self.assertIn("the loss of a chunk is the compiled package of cross_entropy", " ".join(text.split()))

    def test_one_level(self):
        text = self.explain("sum_of_squares", "--level", "aten")
        self.assertIn("aten: exists here", text)
        self.assertNotIn("triton", text)
        self.assertIn("backward: none", text)

    def test_all_ops(self):
        lines = self.explain().splitlines()
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual([line.split("(")[0] for line in lines], [facts["op"] for facts in self.facts()["ops"]])

    def test_kernels(self):
        text = self.explain("sum_of_squares")
        self.assertRegex(text, r"kernels for Hopper, without the shared memory that a launch adds:\n +\w+: \d+ variants?, \d+")
        cuobjdump = kernel_resources.find_cuobjdump()
        names = {name for name, _, _ in kernel_resources.cuda_kernels(cuobjdump, "kernels/sum_of_squares")}
        declared = re.findall(r"__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(", self.sources.read("kernels/sum_of_squares/sum_of_squares.cu"))
        self.assertEqual(names, set(declared))
        kernels = kernel_resources.triton_kernels(cuobjdump, "kernels/sum_of_squares")
        self.assertTrue(all(name.startswith("sum_of_squares_") and 16 <= registers <= 255 for name, registers, _ in kernels), kernels)
        with open("kernels/sum_of_squares/sum_of_squares_triton_kernels.cc", encoding="utf-8") as file:
            text = file.read()
        literals = dict(kernel_resources.CUBIN.findall(text))
        sizes = dict(re.findall(r"\{(k_\w+), (\d+), ", text))
        self.assertEqual({name: len(kernel_resources.decoded(literal)) for name, literal in literals.items()},
                         {name: int(size) for name, size in sizes.items()})
        self.assertEqual(len(kernels), len(sizes))

    def test_summary_of_variants(self):
        self.assertEqual(list(kernel_resources.summary([("a", 40, 0), ("b", 8, 16), ("a", 32, 1024)])),
                         ["a: 2 variants, 32 to 40 registers a thread, 0 to 1024 bytes of shared memory a block",
                          "b: 1 variant, 8 registers a thread, 16 bytes of shared memory a block"])

    def test_a_plan(self):
        path = os.path.join(TMP, "plan.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PLAN)
        text = self.explain("add_rms_norm", "--plan", path)
        self.assertIn("measured for configs/some.yaml on Some GPU, with other kernels than those of this build", text)
        self.assertRegex(text, r"cuda +12\.5 +20\.0  16x8\n")
        self.assertRegex(text, r"triton +- +-  16x8: it said no\n")
        self.assertIn("best for key rms_norm: cuda", text)
        self.assertNotIn("77.7", text)
        self.assertIn("best for key adamw: not measured", self.explain("adamw", "--plan", path))

    def test_refused(self):
        self.assertRegex(self.refused("rmsnorm"), "there is no op 'rmsnorm'; there are linear, layer_norm, .*; did you mean 'rms_norm'[?]")
        self.assertRegex(self.refused("linear", "--level", "tritn"), "there is no level 'tritn'; there are aten, .*; did you mean 'triton'[?]")
        self.assertRegex(self.refused("rms_norm", "--shape", "2048y1024"), "there is no shape '2048y1024'; .*; did you mean '2048x1024'[?]")
        for option in ("--level=cuda", "--shape=1x1", "--dtype=fp32", "--config=a.yaml", "--plan=plan.yaml"):
            self.assertIn("--plan are for one op", self.refused(option))
        self.assertIn("'rms_norm' after the op is a key of --config", self.refused("linear", "rms_norm"))
        for device in ("meta", "gpu", "cpu:1"):
            self.assertIn(f"--device is {device}, expected cpu", self.refused("linear", "--device", device))
        self.assertIn("--dtype int8 is not fp32, bf16 or fp16", self.refused("linear", "--dtype", "int8"))
        self.assertIn("absent.yaml", self.refused("linear", "--plan", os.path.join(TMP, "absent.yaml")))


if __name__ == "__main__":
    unittest.main()
