# SPDX-License-Identifier: MIT
"""validate prints the values of a configuration with their origins, and the parameters, FLOPs and memory of its run."""
import glob
import subprocess
import unittest

QUICKSTART = "configs/quickstart.yaml"
VALIDATE = "trainer/validate"


def validate(*arguments):
    return subprocess.run([VALIDATE, *arguments], capture_output=True, text=True, timeout=60, check=False)


class ValidateTest(unittest.TestCase):
    def test_validate_counts_parameters(self):
        published = {"gpt2_124m": 124439808, "gpt2_xl": 1557611200, "llama_1b": 1235814400, "llama_8b": 8030261248,
                     "quickstart": 824448, "quickstart_vision": 204938, "quickstart_mixer": 141642, "quickstart_graph": 296218}
        for name, count in published.items():
            result = validate(f"configs/{name}.yaml")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"parameters: {count:,}\n", result.stdout)

    def test_validate_counts_images(self):
        config = "configs/quickstart_vision.yaml"
        output = validate(config).stdout
        self.assertRegex(output, r"FLOPs per image, forward and backward: \S+ \(")
        self.assertIn("samples per step: 128 = 1 micro-batches x 64 samples x 2 ranks, of 1 image\n", output)
        for path in (config, QUICKSTART):
            self.assertIn("most at once", validate(path).stdout)
        for size, count in (("tiny", 5717416), ("small", 22050664), ("base", 86567656), ("large", 304326632)):  # timm's numbers
            model = f"model={{type: vision_transformer, size: vit_{size}_patch16_224, classes: 1000}}"
            self.assertIn(f"parameters: {count:,}\n", validate(config, model).stdout)

    def test_validate_counts_nodes(self):
        output = validate("configs/quickstart_graph.yaml").stdout
        self.assertRegex(output, r"FLOPs per node, forward and backward: \S+ \(")
        self.assertIn("samples per step: the whole graph, spread over 1 rank\n", output)
        self.assertIn("bytes per rank on 1 rank, on GPUs, which run.device auto takes where there are any:\n", output)
        self.assertIn("sum without activations (not predicted)", output)

    def test_validate_prints_origins_and_memory(self):
        output = validate(QUICKSTART, "run.ranks=1", "optimizer.learning_rate=1e-2").stdout
        self.assertRegex(output, r"optimizer.learning_rate +0.01 +override\n")
        self.assertRegex(output, r"steps +1200 +configs/quickstart.yaml:3\n")
        self.assertRegex(output, r"run.timeout +300 +default\n")
        self.assertIn("FLOPs per token, forward and backward: 5.333e+06 (5,332,992)\n", output)
        for name, size in {"master weights": 4, "moments": 8, "gradients": 4}.items():  # bytes a parameter, all aligned
            self.assertRegex(output, rf"{name} +{824448 * size:,} ")
        self.assertRegex(output, rf"most at once .*\n  also, in memory of the host, for saves +{824448 * 12:,} ")

    def test_predicts_every_shipped_model_whose_sizes_are_known(self):
        for path in sorted(glob.glob("configs/*.yaml")):
            output = validate(path, "run.device=cuda").stdout
            with open(path, encoding="utf-8") as file:
                text = file.read()
            predicted = "graph_network" not in text or "synthetic_graph" in text
            self.assertIn("most at once" if predicted else "sum without activations (not predicted)", output, path)

    def test_errors_are_those_of_check(self):
        result = validate(QUICKSTART, "stpes=3")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("stpes: unknown key; did you mean 'steps'?", result.stderr)
        self.assertEqual(validate().returncode, 2)

    def test_a_level_that_an_op_lacks_is_refused_in_the_words_of_train(self):
        levels = "kernels={default: aot_inductor, cross_entropy: aten}"
        for device, existing in (("cpu", "aten, torchscript"), ("cuda", "aten, torchscript, triton, cuda")):
            result = validate(QUICKSTART, levels, f"run.device={device}")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, rf"attention has no kernel at level aot_inductor on {device} \(.*\); levels there: {existing}\n")
            self.assertNotIn("frame #", result.stderr)


if __name__ == "__main__":
    unittest.main()
