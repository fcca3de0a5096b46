# SPDX-License-Identifier: MIT
"""validate prints the values of a configuration with their origins, and the parameters, FLOPs and memory of its run."""
import glob
import os
import random
import re
import resource
import shlex
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from training_runs import write_document_ends, write_tokens

QUICKSTART = "configs/quickstart.yaml"
VALIDATE = "trainer/validate"


def validate(*arguments):
    return subprocess.run([VALIDATE, *arguments], capture_output=True, text=True, timeout=60, check=False)


class ValidateTest(unittest.TestCase):
    def test_validate_counts_parameters(self):
        published = {"gpt2_124m": 124439808, "gpt2_xl": 1557611200, "llama_1b": 1235814400, "llama_8b": 8030261248, "llama_8b_fp8": 8030261248,
                     "qwen3_600m": 596049920, "qwen3_4b": 4022468096, "gemma2_2b": 2614341888, "gemma3_1b": 999885952, "mistral_7b": 7241732096,
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

    def test_ranks_that_share_sequences(self):
        """Four ranks that share a sequence of 128 k tokens hold a quarter of its activations."""
        kept = {}
        for ranks in (1, 4):
            result = validate("configs/llama_1b.yaml", "run.device=cuda", f"run.ranks={ranks}", f"sharding.sequence={ranks}", "kernels.attention=triton",
                              "model.sequence=131072", "batch=2", "micro_batch=1", "gradient_checkpointing=full", "evaluation={every: 0}")
            self.assertEqual(result.returncode, 0, result.stderr)
            groups = "1 ranks" if ranks == 1 else "1 groups of 4 ranks"
            self.assertIn(f"samples per step: 2 = 2 micro-batches x 1 samples x {groups}, of 131072 tokens\n", result.stdout)
            kept[ranks] = int(re.search(r"activations that layers keep +([\d,]+)", result.stdout)[1].replace(",", ""))
        self.assertIn("of 4 ranks that share a sequence, the busiest computes 25 % of the visible pairs\n", result.stdout)
        self.assertLess(kept[4], 0.26 * kept[1])

    def test_rotary_positions_of_layers(self):
        output = validate("configs/gemma3_1b.yaml", "layers.0.rotary_scaling={type: linear, factor: 8}").stdout
        self.assertIn("rotary positions:\n  base 10000 in layers 0-4, 6-10, 12-16, 18-22, 24-25\n"
                      "  base 1000000, scaling linear by 8 in layers 5-23 step 6\n", output)
        self.assertNotIn("rotary positions:", validate(QUICKSTART).stdout)

    def test_patterns_of_layers_as_text_and_as_pictures(self):
        layers = "layers=[{only: 0-2 step 2, attention: causal & window(64)}]"
        with tempfile.TemporaryDirectory() as folder:
            result = validate("--svg", folder, QUICKSTART, "model.sequence=256", layers, "kernels={default: aten, layers: [{only: 1, attention: torchscript}]}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("  causal & window(64) in layers 0, 2: 21.9 % of pairs are visible, in 43.8 % of tiles of 64 x 64\n"
                          "    level aten computes all pairs (100 % of tiles), and stores T x T booleans\n"
                          "  causal in layers 1, 3: 50.2 % of pairs are visible, in 62.5 % of tiles of 64 x 64\n", result.stdout)
            self.assertIn("    layer 1: level torchscript computes all pairs (100 % of tiles), and stores the scores of all pairs\n", result.stdout)
            names = ["attention_layer_0.svg", "attention_layer_1.svg"]
            self.assertEqual(sorted(os.listdir(folder)), names)
            for name in names:
                self.assertIn(f"picture of a pattern: {folder}/{name}\n", result.stdout)
                self.assertEqual(xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot().tag.rpartition("}")[2], "svg")
        self.assertNotIn("of pairs are visible", validate("configs/quickstart_mixer.yaml").stdout)
        for words, code in ((["--svg"], 2), (["--svg", "/dev/null/folder", QUICKSTART], 4), (["--svg", "unused", "configs/quickstart_mixer.yaml"], 2)):
            result = validate(*words)
            self.assertEqual((result.returncode, result.stdout), (code, ""))

    def test_the_memory_over_a_step_adds_up_to_the_prediction(self):
        for words in ([], ["run.device=cuda", "precision.compute=bfloat16"], ["gradient_checkpointing=full", "batch=16", "micro_batch=4"]):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "memory.svg")
                result = validate("--memory-timeline", path, QUICKSTART, *words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"memory over a step: {path}\n", result.stdout)
                most = re.search(r"(?m)^  most at once +([0-9,]+) ", result.stdout).group(1)
                texts = [text.text for text in xml.etree.ElementTree.parse(path).getroot().findall(".//{*}text")]
            self.assertTrue(texts[0].startswith(f"most at once: {most} bytes, "), texts)
            classes = [found for found in (re.fullmatch(r"([a-z][^:]*): ([0-9,]+) bytes, .*", text) for text in texts[1:]) if found]
            self.assertEqual(sum(int(found.group(2).replace(",", "")) for found in classes), int(most.replace(",", "")))
            self.assertIn("master weights", [found.group(1) for found in classes])
            largest = [text for text in texts if re.match(r"[0-9,]+ bytes, .* MiB: the (forward|backward|loss|embedding|sum)", text)]
            self.assertEqual(len(largest), 10, texts)
            self.assertTrue(any(re.search(r", [a-z_]+/[a-z]+", text) for text in largest), largest)
            self.assertLessEqual({"forward", "backward"}, set(texts))
        for words, code in ((["--memory-timeline"], 2), (["--memory-timeline", "/dev/null/file", QUICKSTART], 4),
                            (["--memory-timeline", "unused", "configs/quickstart_graph.yaml"], 2)):  # fmt: skip
            self.assertEqual(validate(*words).returncode, code, words)

    def test_pictures_of_the_page_are_those_of_its_command(self):
        with open("docs/attention.md", encoding="utf-8") as file:
            commands = [shlex.split(line)[2:] for line in file if line.startswith("tools/strata validate --svg docs/pictures")]
        self.assertEqual([words[1] for words in commands], ["docs/pictures", "docs/pictures/documents"])
        for words in commands:
            with tempfile.TemporaryDirectory() as folder:
                result = validate(words[0], folder, *words[2:])
                self.assertEqual(result.returncode, 0, result.stderr)
                names = sorted(os.listdir(folder))
                self.assertEqual(names, sorted(name for name in os.listdir(words[1]) if name.endswith(".svg")))
                for name in names:
                    with open(os.path.join(folder, name), "rb") as drawn, open(os.path.join(words[1], name), "rb") as kept:
                        self.assertEqual(drawn.read(), kept.read(), name)

    def test_layers_change_flops_and_memory(self):
        def sizes(*overrides):
            one_sample = ["run={folder: unused, device: cpu}", "batch=1", "micro_batch=1", "evaluation={every: 0}"]
            output = validate(QUICKSTART, *one_sample, "model.sequence=4096", *overrides).stdout
            return int(re.search(r"FLOPs per token.*\((.*)\)", output)[1].replace(",", "")), int(re.search(r"most at once +([\d,]+) ", output)[1].replace(",", ""))

        causal, one, all_layers = sizes(), sizes("layers=[{only: 3, attention: causal & window(8)}]"), sizes("model.attention=causal & window(8)")
        self.assertEqual(sizes("layers=[{only: 0-3, attention: causal & window(8)}]"), all_layers)
        self.assertAlmostEqual(causal[0] - one[0], (causal[0] - all_layers[0]) / 4, delta=2)
        self.assertLess(causal[1], one[1])  # level aten stores a mask

    def test_flops_count_pairs_within_documents(self):
        """Both windows of 16 tokens have a document of 5 tokens and one of 11."""
        with tempfile.TemporaryDirectory() as folder:
            tokens = os.path.join(folder, "train.bin")

            def flops(documents):
                result = validate(QUICKSTART, "model.sequence=16", f"data={{type: text, train: '{tokens}', validation: '{tokens}', documents: {documents}}}")
                self.assertEqual(result.returncode, 0, result.stderr)
                (number, note), = re.findall(r"FLOPs per token.*\((.*?)\)(.*)\n", result.stdout)
                return int(number.replace(",", "")), note

            joined, nothing = flops("joined")
            self.assertEqual(nothing, "")
            unread, why = flops("separate")
            self.assertEqual(unread, joined)
            self.assertRegex(why, "; each sample counts as one document, because the data cannot be read: .*train.bin")
            write_tokens(tokens, [7] * 33)
            write_document_ends(tokens, [5, 21, 33])
            separate, note = flops("separate")
            self.assertEqual(note, "; attention within the documents of 2 samples")
            self.assertEqual(joined - separate, 12 * 128 * 4 * (16 * 16 - 5 * 5 - 11 * 11) // 2 // 16)
            write_tokens(tokens, [300] * 17)  # no token is read
            write_document_ends(tokens, [5, 17])
            self.assertEqual(flops("separate"), (separate, "; attention within the documents of 1 sample"))

    def test_a_pattern_that_is_not_trained_is_a_warning(self):
        result = validate(QUICKSTART, "layers=[{only: 1, attention: window(4)}]")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.endswith(
            "\nwarning: tools/strata train refuses this configuration:\nlayers.0.attention: position t is trained to predict token t + 1, and with "
            "`window(4)` it sees tokens after it; write `causal & window(4)`; this is the pattern of layer 1\n"), result.stdout)
        self.assertNotIn("warning", validate(QUICKSTART, "layers=[{only: 1, attention: causal | prefix(4)}]").stdout)

    def test_a_scaling_for_a_context_that_no_sample_reaches_is_a_warning(self):
        for layers in ("model.rotary_scaling={type: %s, original_sequence: %d}", "layers=[{only: 2, rotary_base: 100, rotary_scaling: {type: %s, original_sequence: %d}}]"):
            for kind in ("yarn", "llama3"):
                self.assertIn("\nwarning: rotary_scaling.original_sequence 129 is more than model.sequence 128, so rotary positions are scaled although no sample is",
                              validate(QUICKSTART, layers % (kind, 129)).stdout)
                self.assertNotIn("warning", validate(QUICKSTART, layers % (kind, 128)).stdout)

    def test_memory_without_a_plan_is_that_of_a_level_with_the_pattern(self):
        def memory(pattern, *overrides, compute="bfloat16"):
            result = validate(QUICKSTART, "run.device=cuda", f"precision.compute={compute}", f"model.attention={pattern}", *overrides)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout, [line for line in result.stdout.splitlines() if "most at once" in line]
        # Level cuda, which stands for the plan, has no global, no alibi and softcap together, no sinks with documents and not all heads.
        for pattern, level, *more in (("causal", "cuda"), ("causal | prefix(16)", "cuda"), ("causal | global(16)", "triton"), ("causal", "cuda", "model.softcap=30"),
                                      ("causal", "triton", "model.softcap=30", "model.alibi=true"), ("causal", "cuda", "model.sinks=true"),
                                      ("causal", "triton", "model.sinks=true", "data.documents=separate"), ("causal", "triton", "model.head_width=12"),
                                      ("causal", "aten", "model.head_width=264")):
            said, most = memory(pattern, "kernels.default=best", *more)
            self.assertIn("    level best: a plan chooses it\n", said)
            self.assertEqual(len(most), 1)
            self.assertEqual(most, memory(pattern, "kernels.default=cuda", "kernels.attention=" + level, *more)[1])
        triton = memory("causal", "kernels.default=cuda", "kernels.attention=triton", compute="float32")
        self.assertEqual(memory("causal", "kernels.default=best", compute="float32")[1], triton[1])

    def test_a_level_that_lacks_a_pattern_is_refused(self):
        result = validate(QUICKSTART, "run.device=cuda", "kernels.attention=cuda", "layers=[{only: 1-3 step 2, attention: causal | global(64)}]")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("override 'kernels.attention=cuda': kernels.attention: attention at level cuda does not take causal | global(64) of layers 1, 3, "
                      "expected full, causal, window(n) or causal & window(n), each alone or with & documents, or causal | prefix(n), or heads of 64 or 128; "
                      "levels aten, torchscript, aot_inductor and triton take it\n", result.stderr)

    def test_a_level_that_lacks_the_type_of_heads_is_refused(self):
        result = validate(QUICKSTART, "run.device=cuda", "kernels.default=cuda")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("override 'kernels.default=cuda': kernels.default: attention at level cuda does not take heads of 32 in float32 of layers 0-3, "
                      "expected bfloat16 or float16; levels aten, torchscript, aot_inductor and triton take float32\n", result.stderr)

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

    def test_sizes_that_no_device_has_are_refused(self):
        huge = ("run.ranks=1", "run.device=cpu", "micro_batch=500000000", "batch=500000000", "evaluation={}", "model.sequence=100000",
                "model.vocabulary=100000000")
        result = validate(QUICKSTART, *huge)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"micro_batch 500,000,000 x model.sequence 100,000 x model.vocabulary 100,000,000 = 5e\+21: a step of "
                                        r"one rank is too large, because .*; lower micro_batch\n")
        result = validate(QUICKSTART, *huge[:-1], "model.vocabulary=1000", "kernels={default: aten, linear_cross_entropy: aten}")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"linear_cross_entropy would compute [\d,]+ chunks of rows.*; lower micro_batch\n")
        # The tables of a long sequence are not computed.
        result = validate(QUICKSTART, "run.device=cuda", "evaluation={}", "micro_batch=1", "batch=2", "model.sequence=50000000")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_drawn_huge_sizes_are_refused_or_predicted(self):
        random.seed(3)

        def draw(most, least=1):
            return round(least * (most / least) ** random.random())

        keys = re.compile(r"\b(micro_batch|batch|model\.\w+|data\.\w+)\b")
        codes = set()
        for number in range(14):
            heads, micro_batch = draw(1000), draw(10**9)
            common = [f"micro_batch={micro_batch}", f"batch={micro_batch}", "run.ranks=1", "evaluation={}",
                      f"run.device={random.choice(['cpu', 'cuda'])}"]
            if number % 4 == 3:
                words = ["configs/quickstart_graph.yaml", f"data={{type: synthetic_graph, nodes: {draw(10**9, 5)}, edges: {draw(10**9)}}}",
                         f"model={{type: graph_network, convolution: sage, layers: {draw(50)}, width: {draw(10**6)}, "
                         f"features: {draw(10**8)}, classes: {draw(10**8, 2)}}}"]
            elif number % 4 == 2:
                patch = draw(30)
                words = ["configs/quickstart_vision.yaml", *common,
                         f"model={{type: vision_transformer, layers: {draw(50)}, width: {heads * draw(500)}, heads: {heads}, patch: {patch}, "
                         f"image_size: {patch * draw(100)}, channels: 3, classes: {draw(10**8, 2)}}}"]
            else:
                words = [QUICKSTART, *common, random.choice(["kernels={default: aten}", "kernels={default: torchscript}",
                                                             "kernels={default: aten, linear_cross_entropy: aten}"]),
                         f"model={{type: transformer, family: {random.choice(['gpt2', 'llama'])}, layers: {draw(50)}, "
                         f"width: {heads * 2 * draw(500)}, heads: {heads}, feed_forward: {draw(10**7)}, sequence: {draw(10**7)}, "
                         f"vocabulary: {draw(10**8, 2)}}}"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            result = validate(*words)
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            with self.subTest(words=words, stderr=result.stderr):
                codes.add(result.returncode)
                self.assertIn(result.returncode, (0, 2))
                self.assertLess(seconds, 10)
                self.assertNotRegex(result.stdout, r" -\d")  # no sum of bytes is negative
                if result.returncode == 2:
                    self.assertRegex(result.stderr, keys)
        self.assertEqual(codes, {0, 2})

    def test_a_level_that_an_op_lacks_is_refused_in_the_words_of_train(self):
        levels = "kernels={default: aot_inductor, cross_entropy: aten}"
        result = validate(QUICKSTART, levels, "run.device=cpu")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r"attention has no kernel at level aot_inductor on cpu \(.*\); levels there: aten, torchscript\n")
        self.assertNotIn("frame #", result.stderr)


if __name__ == "__main__":
    unittest.main()
