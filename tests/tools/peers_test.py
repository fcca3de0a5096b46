# SPDX-License-Identifier: MIT
"""Checks the peers of attention and of a training step on the CPU: their masks, results, data and lines."""
import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import create_block_mask, create_mask
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

TOOLS = os.path.abspath("tools/bench")
sys.path.insert(0, TOOLS)
import attention_peers  # noqa: E402
import packed_text  # noqa: E402
import peer_decoder  # noqa: E402
import peer_fp8  # noqa: E402
import peers  # noqa: E402
from attention_pattern import Pattern  # noqa: E402

BENCH, STEP = os.path.join(TOOLS, "kernels/bench_kernels"), os.path.abspath("tools/bench/bench_step")
QWEN, QUICK_START, LLAMA = (os.path.abspath(f"configs/{name}.yaml") for name in ("qwen3_600m", "quickstart", "llama_1b"))
SMALL = ["model.layers=2", "model.width=32", "model.heads=4", "model.key_value_heads=2", "model.head_width=16", "model.feed_forward=48",
         "model.sequence=64", "model.vocabulary=50"]


def lines_of(main, *arguments):
    """Returns the lines of JSON that a script prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output, mock.patch.object(sys, "argv", ["", *arguments]):
        main()
    return [json.loads(line) for line in output.getvalue().splitlines()]


def flops_of(rows):
    return {(row["op"], row["shape"], row["direction"]): round(1e6 * row["microseconds"] * row["teraflops_per_second"]) for row in rows
            if "microseconds" in row}


class RoundedLinear(torch.nn.Linear):
    """Rounds its operands to E4M3, with one scale for the tensor or one for each row."""

    def forward(self, x):
        rounded = []
        for operand in (x, self.weight):
            scale = 448 / (operand.detach().abs().amax(-1, keepdim=True) if self.recipe == "rowwise" else operand.detach().abs().amax())
            codes = (operand.detach() * scale).to(torch.float8_e4m3fn).to(operand.dtype) / scale
            rounded.append(operand + (codes - operand).detach())
        return F.linear(*rounded)


@dataclasses.dataclass
class RoundedConfig:
    """Stands for torchao's configuration."""

    recipe: str
    emulate: bool = False

    @staticmethod
    def from_recipe_name(name):
        return RoundedConfig(name)


def rounded_layers(model, config):
    """Stands for torchao's conversion: the layers of a model are replaced, and their parameters kept."""
    assert config.emulate  # there is no GPU
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                with torch.device("meta"):
                    layer = RoundedLinear(child.in_features, child.out_features, bias=False)
                layer.weight, layer.recipe = child.weight, config.recipe
                setattr(parent, name, layer)
    return model


def torchao(package=types.SimpleNamespace(Float8LinearConfig=RoundedConfig, convert_to_float8_training=rounded_layers)):
    """Puts this in the place of the package. None: it is not installed."""
    return mock.patch.dict(sys.modules, {"torchao": package, "torchao.float8": package})


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        torch.manual_seed(1)

    def strata(self, *command, expect=0):
        """Runs a program of Strata and returns its lines of JSON, or with another exit code what it says."""
        path = self.folder + "/lines"
        done = subprocess.run([*command, "--json", path], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        if expect:
            return done.stderr
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        os.remove(path)
        return rows

    def bench_attention(self, *arguments):
        return self.strata(BENCH, "--device", "cpu", "--op", "attention", "--level", "aten", "--dtype", "fp32", *arguments)

    def peers_of_attention(self, shape, level, *patterns):
        words = [word for pattern in patterns for word in ("--pattern", pattern)]
        return lines_of(peers.main, "--op", "attention", "--shape", shape, "--level", level, *words)

    def test_rows_join_with_those_of_strata(self):
        """Shapes and FLOPs, which count the visible pairs, are the same in both. A configuration has no documents of given lengths."""
        config = ["--config", QUICK_START, "run.ranks=1", "batch=2", "micro_batch=2", "model.sequence=256", "model.width=32", "model.heads=4",
                  "model.key_value_heads=2"]
        terms = {"causal, alibi": "model.alibi=true", "causal, softcap 30": "model.softcap=30"}
        patterns = [pattern for pattern in attention_peers.patterns_of(256) if pattern not in terms and "documents" not in pattern]
        layers = ", ".join(f"{{only: {layer}, attention: '{pattern}'}}" for layer, pattern in enumerate(patterns))
        ours = flops_of(self.bench_attention(*config, f"model.layers={len(patterns)}", f"layers=[{layers}]"))
        self.assertEqual(flops_of(self.peers_of_attention("2x256x4x2x8", "explicit", *patterns)), ours)
        for pattern, key in terms.items():
            theirs = flops_of(self.peers_of_attention("2x256x4x2x8", "flex", pattern))
            self.assertEqual(len(theirs), 1)
            self.assertLessEqual(theirs.items(), flops_of(self.bench_attention(*config, key)).items())

    def test_documents_join_with_those_of_strata(self):
        theirs = flops_of(self.peers_of_attention("2x256x8x8x64", "explicit", "causal & documents, 8 documents"))
        self.assertEqual(len(theirs), 2)
        self.assertLessEqual(theirs.items(), flops_of(self.bench_attention()).items())

    def test_lists_of_blocks_are_those_of_create_block_mask(self):
        for text in [*attention_peers.patterns_of(512), "documents & window(100), 3 documents", "full"]:
            for block in (64, 128):
                with self.subTest(text, block=block):
                    pattern = Pattern(text, 2, 512, 4, "cpu")
                    found, pairs = pattern.block_mask(block)
                    wanted = create_block_mask(pattern.mask.sees, pattern.rows, None, 512, 512, device="cpu", BLOCK_SIZE=block)
                    self.assertEqual(pairs, pattern.seen(torch.arange(512)).sum())
                    for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
                        self.assertTrue(torch.equal(getattr(found, name), getattr(wanted, name)), name)
                    self.assertTrue(torch.equal(found.to_dense(), wanted.to_dense()))

    def test_a_pattern_that_is_none_is_refused(self):
        for text in ("windw(3)", "causal &", "causal, sinks", "causal, softcap"):
            with self.subTest(text), self.assertRaises(ValueError):
                Pattern(text, 1, 128, 4, "cpu")

    def test_masks_that_cudnn_gets(self):
        with mock.patch.dict(attention_peers.BACKENDS, cudnn=SDPBackend.MATH):
            cudnn = list(attention_peers.pattern_peers(["all"], ["2x512x4x2x16"], 128, {"cudnn"}))
            self.assertEqual(len(cudnn), len(attention_peers.patterns_of(512)) - 1)  # SDPA has no softcap
            for peer in cudnn:
                peer.check(peer, peer.run)

    def test_wrong_results_are_not_timed(self):
        def explicit(change):
            peer = next(attention_peers.pattern_peers(["causal & window(40)"], ["2x128x4x2x16"], 128, {"explicit"}))
            peer.check(peer, lambda q, k, v: change(peer.run(q, k, v)))

        explicit(lambda y: y)
        for change in (lambda y: 1.05 * y, lambda y: y * float("nan"), lambda y: torch.cat([y[:, :, :-1], 0 * y[:, :, -1:]], 2),
                       lambda y: 1.05 * y - 0.05 * y.detach()):  # only the gradients are wrong
            with self.assertRaisesRegex(ValueError, "differs from the definition"):
                explicit(change)

    def test_a_peer_that_cannot_run_has_a_reason_in_place_of_times(self):
        def fail(*_):
            raise RuntimeError("no kernel\nand more")

        for check, run in ((None, fail), (fail, lambda x: x)):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                peers.print_times(peers.Peer("copy", "4", lambda: [torch.ones(4)], run, (32, 0), check=check), "eager", run)
            (row,) = map(json.loads, output.getvalue().splitlines())
            self.assertEqual(row["not_timed"], "RuntimeError: no kernel")
            self.assertNotIn("microseconds", row)

    def test_the_decoder_has_the_parameters_of_the_configuration(self):
        sizes, config = peer_decoder.sizes_of(QWEN, ["batch=8"])
        self.assertEqual((config["batch"], sizes.norm_epsilon), (8, 1e-6))
        with torch.device("meta"):
            decoder = peer_decoder.Decoder(sizes)
        self.assertEqual(sum(parameter.numel() for parameter in decoder.parameters()), 596_049_920)
        with self.assertRaises(SystemExit):
            peer_decoder.sizes_of(QWEN, ["model.softcap=30"])

    def test_packed_documents_are_as_if_alone(self):
        sizes, _ = peer_decoder.sizes_of(QWEN, SMALL)
        decoder, text = peer_decoder.Decoder(sizes), packed_text.Text(sizes, 20)
        windows = [0, 7]
        tokens, labels, start = text.batch(torch.tensor(windows))
        packed = decoder(tokens, *text.rotary(start), peer_decoder.document_mask(start, create_mask))
        alone = packed_text.Text(sizes, None)
        found = 0
        for row, window in enumerate(windows):
            after = (window + 1) * sizes.sequence  # place of the token that follows
            begins = [*start[row].unique().tolist(), sizes.sequence]
            for begin, end in zip(begins, begins[1:]):
                tables = [table[:, :end - begin] for table in alone.rotary(None)]
                for mine, of_row in zip(tables, text.rotary(start)):  # attention sees differences of positions only
                    self.assertTrue(torch.equal(mine[0], of_row[row, begin:end]))
                torch.testing.assert_close(packed[row, begin:end], decoder(tokens[row:row + 1, begin:end], *tables, None)[0])
                ends = end < sizes.sequence or text.begin[after] == after
                self.assertEqual((labels[row, begin:end] == packed_text.IGNORED).nonzero().flatten().tolist(), [end - begin - 1] if ends else [])
                found += 1
        self.assertGreater(found, 4)

    def test_blocks_are_compiled_once_for_all_layers_and_documents(self):
        """What a GPU compiles, without its kernels: FlexAttention in each block, with a block mask of new documents."""
        sizes, _ = peer_decoder.sizes_of(QWEN, [*SMALL, "model.sequence=128", "model.layers=3"])
        decoder, text = peer_decoder.Decoder(sizes), packed_text.Text(sizes, 40)
        for block in decoder.blocks:
            block.compile(fullgraph=True, dynamic=False, backend="eager")
        make = torch.compile(create_block_mask, dynamic=False, backend="eager")
        torch._dynamo.reset()
        with torch.no_grad():
            for windows in ([0, 7], [3, 200]):
                tokens, _, start = text.batch(torch.tensor(windows))
                lists = peer_decoder.document_mask(start, make)
                compiled = decoder(tokens, *text.rotary(start), lists)
                eager = peer_decoder.Decoder(sizes)
                eager.load_state_dict(decoder.state_dict())
                torch.testing.assert_close(compiled, eager(tokens, *text.rotary(start), peer_decoder.document_mask(start, create_mask)))
                with torch._dynamo.config.patch(error_on_recompile=True):
                    decoder(tokens, *text.rotary(start), lists)

    def test_a_block_that_differs_is_not_timed(self):
        sizes, _ = peer_decoder.sizes_of(QWEN, SMALL)
        training = peer_decoder.Training(sizes, packed_text.Text(sizes, 20), batch=2, micro_batch=2)
        training.check()
        causal = lambda sees, *sizes, **others: create_mask(lambda b, h, q, k: q >= k, *sizes, **others)
        with mock.patch.object(peer_decoder, "make_lists", causal), self.assertRaisesRegex(ValueError, "the result of a compiled block differs from"):
            training.check()

    def test_gradients_of_a_step_are_those_of_the_mean_loss(self):
        sizes, _ = peer_decoder.sizes_of(QWEN, SMALL)
        text = packed_text.Text(sizes, 20)
        training = peer_decoder.Training(sizes, text, batch=4, micro_batch=2)
        with mock.patch.object(training, "optimizer"), mock.patch.object(torch, "randint", return_value=torch.tensor([5, 9, 11, 200])), \
                mock.patch.object(torch.nn.utils, "clip_grad_norm_"):
            loss = training.step()
        reference = peer_decoder.Decoder(sizes)
        with torch.no_grad():
            for parameter, master in zip(reference.parameters(), training.masters):
                parameter.copy_(master)
        tokens, labels, start = text.batch(torch.tensor([5, 9, 11, 200]))
        logits = F.linear(reference(tokens, *text.rotary(start), peer_decoder.document_mask(start, create_mask)), reference.head.weight)
        expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=packed_text.IGNORED)
        expected.backward()
        self.assertAlmostEqual(loss.item(), expected.item(), delta=0.02)
        for (name, parameter), master in zip(reference.named_parameters(), training.masters):
            error = (master.grad - parameter.grad).norm() / parameter.grad.norm()
            self.assertLess(error, 0.05, name)  # of bfloat16

    def test_rotary_scaling_is_that_of_transformers(self):
        sizes, config = peer_decoder.sizes_of(LLAMA, ["batch=8", "micro_batch=8"])
        with torch.device("meta"):
            decoder = peer_decoder.Decoder(sizes)
        self.assertEqual(sum(parameter.numel() for parameter in decoder.parameters()), 1_235_814_400)
        theirs = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 8192}
        wanted, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(hidden_size=2048, num_attention_heads=32, head_dim=64, rope_parameters=theirs), "cpu")
        torch.testing.assert_close(packed_text.frequencies(sizes).float(), wanted)
        sizes.rotary_scaling = {"type": "yarn"}
        with self.assertRaisesRegex(SystemExit, "none or llama3 was expected, found yarn"):
            packed_text.frequencies(sizes)

    def test_linear_layers_of_blocks_are_multiplied_in_fp8(self):
        sizes, _ = peer_decoder.sizes_of(QWEN, [*SMALL, "model.tied=false"])
        text = packed_text.Text(sizes, None)
        plain = peer_decoder.Training(sizes, text, batch=2, micro_batch=2)
        for recipe in peer_fp8.RECIPES:
            with self.subTest(recipe), torchao():
                training = peer_decoder.Training(sizes, text, batch=2, micro_batch=2, fp8=recipe)
                self.assertEqual(torch._inductor.config.emulate_precision_casts, recipe == "rowwise")
                layers = [module for module in training.model.modules() if isinstance(module, RoundedLinear)]
                self.assertEqual((training.fp8_layers, {layer.recipe for layer in layers}), (len(layers), {recipe}))
                self.assertEqual(len(layers), 2 * 4)
                self.assertIs(type(training.model.head), torch.nn.Linear)
                with torch.no_grad():
                    for mine, other in zip(training.copies, plain.copies, strict=True):
                        mine.copy_(other)
                training.check()
                tokens, _, _ = text.batch(torch.tensor([3, 4]))
                mine, other = (it.model(tokens, *text.rotary(None), None).float() for it in (training, plain))
                error = ((mine - other).norm() / other.norm()).item()
                self.assertTrue(0.002 < error < 0.1, error)
                before = [master.clone() for master in training.masters]
                training.step()
                for old, new in zip(before, training.masters):
                    self.assertFalse(torch.equal(old, new))

    def test_fp8_without_torchao_says_what_to_install(self):
        sizes, _ = peer_decoder.sizes_of(QWEN, SMALL)
        with torchao(None), self.assertRaisesRegex(SystemExit, "--fp8 needs the package torchao, which cannot be imported .*pip install --no-deps torchao=="):
            peer_decoder.Training(sizes, packed_text.Text(sizes, None), batch=2, micro_batch=2, fp8="rowwise")

    def test_documents_are_those_of_the_random_data(self):
        # tests/tools/random_data_test.cc has the same numbers.
        ends = packed_text.document_ends(4097, 5)
        self.assertEqual(ends[:11], [6, 10, 14, 18, 19, 28, 34, 42, 46, 51, 55])
        self.assertEqual(ends[-1], 4097)
        self.assertAlmostEqual(4097 / len(ends), 5, delta=0.5)

    def test_a_step_of_both(self):
        shape = [*SMALL, "batch=4", "micro_batch=2", "data.documents=separate"]
        (theirs,) = lines_of(peer_decoder.main, QWEN, *shape, "--document-tokens", "20", "--warm-up", "1", "--steps", "3")
        (ours,) = self.strata(STEP, QWEN, *shape, "run.ranks=1", "sharding.gather=shared", "kernels={default: aten}", "--document-tokens", "20",
                              "--warm-up", "5", "--steps", "3")
        self.assertEqual((theirs["fp8"], theirs["fp8_layers"]), (None, 0))
        for key in ("batch", "micro_batch", "tokens_per_sample", "steps"):
            self.assertEqual(theirs[key], ours[key], key)
        for line in (theirs, ours):
            self.assertAlmostEqual(line["tokens_per_second"] * line["milliseconds"] / 1e3, 4 * 64, places=6)
            self.assertAlmostEqual(line["loss"], 3.9, delta=0.3)  # the logarithm of 50
        self.assertIn("give data.documents=separate", self.strata(STEP, QWEN, *shape[:-1], "run.ranks=1", "--document-tokens", "20", expect=2))


if __name__ == "__main__":
    unittest.main()
