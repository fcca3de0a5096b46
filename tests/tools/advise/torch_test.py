# SPDX-License-Identifier: MIT
"""The groups of models of plain PyTorch are those expected, exactly, and what is like an op and is none is not taken for it."""
import os
import sys
import unittest
import unittest.mock
import warnings

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath("tools/advise"), os.path.abspath("tools")]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import torch_calls  # noqa: E402
import torch_family  # noqa: E402
import torch_gains  # noqa: E402
import torch_main  # noqa: E402
import torch_masks  # noqa: E402
from bad_input import BadInput  # noqa: E402
import torch_models as models  # noqa: E402
import torch_patterns  # noqa: E402
import torch_prediction  # noqa: E402
import torch_times  # noqa: E402
import torch_work  # noqa: E402
from torch_graph import Graph  # noqa: E402
from torch_groups import Grouping  # noqa: E402

warnings.simplefilter("ignore")
BLOCK = [
    ("layer_norm", "16x64 bias", ""), ("linear", "16x64->192 bias", ""), ("attention", "2x8 positions, 4 heads of 16, causal", ""),
    ("linear", "16x64->64 bias", ""), ("dropout", "16x64", ""), ("add_layer_norm", "16x64 bias", "addition + norm"),
    ("linear", "16x64->256 gelu_tanh bias", "product + activation"), ("linear", "16x256->64 bias", ""), ("dropout", "16x64", ""),
]  # fmt: skip


class Case(unittest.TestCase):
    def graph(self, model, *inputs):
        return Graph(models.save(os.path.join(os.environ["TEST_TMPDIR"], f"{self.id()}.pt2"), model, *inputs))

    def grouping(self, model, *inputs):
        return Grouping(self.graph(model, *inputs))

    def groups(self, model, *inputs):
        found = self.grouping(model, *inputs)
        return [(group.op, group.shape, group.fusion) for group in found.groups], sorted(node.op for node in found.outside.values())


class ModelsTest(Case):
    def test_a_block_of_gpt2(self):
        found, outside = self.groups(models.Gpt2Block(), torch.rand(2, 8, 64))
        self.assertEqual((found, outside), (BLOCK, ["aten.add"]))

    def test_dropout_at_evaluation_is_nothing(self):
        found, outside = self.groups(models.Gpt2Block().eval(), torch.rand(2, 8, 64))
        self.assertEqual((found, outside), ([group for group in BLOCK if group[0] != "dropout"], ["aten.add"]))

    def test_a_whole_gpt2_has_its_keys(self):
        grouping = self.grouping(models.Gpt2(), *(torch.zeros(2, 8, dtype=torch.long) for _ in range(2)))
        keys, why = torch_family.keys_of(grouping)
        self.assertEqual((keys, why), ({"type": "transformer", "family": "gpt2", "layers": 2, "width": 64, "heads": "4", "feed_forward": 256,
                                        "sequence": "8", "vocabulary": 100, "tied": "true"}, ""))  # fmt: skip
        self.assertEqual([node.op for node in grouping.outside.values()], ["aten.add"])  # of the two embeddings
        head, = torch_prediction.losses_apart(grouping)
        self.assertEqual((head.bytes, head.milliseconds), (4 * 16 * 100, None))
        self.assertIn("linear_cross_entropy 16x64->100", head.reason)

    def test_a_part_of_a_model_is_no_family(self):
        keys, why = torch_family.keys_of(self.grouping(models.Gpt2Block(), torch.rand(2, 8, 64)))
        self.assertIsNone(keys)
        self.assertIn("no embedding of tokens", why)

    def test_a_block_of_llama(self):
        found, outside = self.groups(models.LlamaBlock(), torch.rand(2, 16, 64))
        self.assertEqual(found, [
            ("rms_norm", "32x64", "formula by hand"), ("linear", "32x64->128", "products of q, k and v"),
            ("rotary", "2x16 positions, 4/2 heads of 16", "formula by hand"),
            ("attention", "2x16 positions, 4/2 heads of 16, causal", "attention with scores in memory"), ("linear", "32x64->64", ""),
            ("add_rms_norm", "32x64", "addition + norm"), ("linear", "32x64->256", "products of gate and up"),
            ("swiglu", "32x128", "gate of two nodes"), ("linear", "32x128->64", ""),
        ])  # fmt: skip
        self.assertEqual(outside, ["aten.add"])

    def test_a_vision_transformer(self):
        model = models.VisionBlock()
        grouping = self.grouping(model, torch.rand(2, 3, 16, 16))
        self.assertEqual([(group.op, group.shape) for group in grouping.groups], [
            ("linear", "32x48->64 bias"), ("layer_norm", "34x64 bias"), ("linear", "34x64->192 bias"),
            ("attention", "2x17 positions, 4 heads of 16, full"), ("linear", "34x64->64 bias"), ("add_layer_norm", "34x64 bias"),
            ("linear", "34x64->128 gelu bias"), ("linear", "34x128->64 bias"), ("linear", "2x64->10 bias"),
        ])  # fmt: skip
        keys, why = torch_family.keys_of(grouping)
        self.assertEqual((keys, why), ({"type": "vision_transformer", "layers": 1, "width": 64, "heads": "4", "feed_forward": 128, "image_size": 16,
                                        "patch": 4, "channels": 3, "classes": "10"}, ""))  # fmt: skip

    def test_an_mlp_with_nothing_to_gain(self):
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        grouping = self.grouping(model, torch.rand(5, 8))
        self.assertEqual([(group.op, group.shape, group.fusion) for group in grouping.groups],
                         [("linear", "5x8->16 bias", ""), ("linear", "5x16->4 bias", "")])  # fmt: skip
        self.assertEqual([node.op for node in grouping.outside.values()], ["aten.tanh"])
        self.assertEqual(torch_prediction.advices(grouping, []), [])

    def test_attention_by_hand(self):
        expected = [("linear", "32x64->192 bias", "products of q, k and v"),
                    ("attention", "2x16 positions, 4 heads of 16, causal", "attention with scores in memory")]  # fmt: skip
        self.assertEqual(self.groups(models.Attention(models.lower(16)), torch.rand(2, 16, 64)), (expected, []))

    def test_decomposed_graphs(self):
        path = os.path.join(os.environ["TEST_TMPDIR"], "decomposed.pt2")
        exported = torch.export.export(models.Attention(models.lower(16)), (torch.rand(2, 16, 64),)).run_decompositions()
        torch.export.save(exported, path)
        self.assertEqual([group.op for group in Grouping(Graph(path)).groups], ["linear", "attention"])

    def test_types_without_an_op_are_outside(self):
        grouping = self.grouping(nn.Linear(8, 8).double(), torch.rand(2, 8).double())
        self.assertEqual((grouping.groups, list(grouping.refused.values())), ([], ["no op of Strata has type fp64"]))


@torch.library.custom_op("foreign::twist", mutates_args=())
def twist(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@twist.register_fake
def twist_of_no_values(x):
    return torch.empty_like(x)


class Twisted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.fft.fft(twist(self.linear(x))).real


class OutsideTest(Case):
    def test_an_unknown_operator_is_named_and_not_run(self):
        grouping = self.grouping(Twisted(), torch.rand(4, 8))
        self.assertIn("foreign.twist", {node.op for node in grouping.outside.values()})
        part = torch_times.Part(grouping.graph, grouping.graph.nodes)
        self.assertIn("foreign.twist", part.unknown)
        self.assertRaisesRegex(ValueError, "foreign.twist is not in the list", part.run, {name: part.random_input(name, False) for name in part.inputs})

    def refused(self, forward, *inputs):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(8))

            def forward(self, *given):
                return forward(self, *given)

        grouping = self.grouping(Model(), *inputs)
        return [group.op for group in grouping.groups], set(grouping.refused.values())

    def test_attention_that_strata_does_not_have(self):
        query = torch.rand(2, 4, 16, 8)
        for words, call in (("dropout 0.1", lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1)),
                            ("times as large as in Strata", lambda q: F.scaled_dot_product_attention(q, q, q, scale=1.0)),
                            ("8 queries see 16 keys", lambda q: F.scaled_dot_product_attention(q[:, :, :8], q, q)),
                            ("no constant pattern", lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=q @ q.transpose(-1, -2))),
                            ("none of the patterns", lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(16, 16).tril(-1) == 1)),
                            ("a mask, or a term", lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=-torch.ones(16, 16).triu())),
                            ("used elsewhere", lambda q: (lambda p: (p @ q, p))(((q @ q.transpose(-1, -2)) * 8**-0.5).softmax(-1)))):  # fmt: skip
            with self.subTest(words):
                found, why = self.refused(lambda self, q, call=call: call(q), query)
                self.assertEqual(found, [])
                self.assertTrue(any(words in each for each in why), why)

    def test_a_mask_of_the_input(self):
        found, why = self.refused(lambda self, q, mask: F.scaled_dot_product_attention(q, q, q, attn_mask=mask), torch.rand(2, 4, 16, 8),
                                  torch.ones(16, 16, dtype=torch.bool))  # fmt: skip
        self.assertEqual((found, why), ([], {"a mask that is given with the input"}))

    def test_formulas_that_are_almost_an_op(self):
        x = torch.rand(8, 8)
        for words, forward in (("another constant", lambda self, x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3)))),
                               ("another value", lambda self, x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * (x + 1)**3)))),
                               ("a mean over rows", lambda self, x: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6) * self.weight),
                               ("no weight", lambda self, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
                               ("a weight that is computed", lambda self, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)),
                               ("a product of activations", lambda self, x: x @ x.T),
                               ("a softmax over queries", lambda self, x: ((x @ x.T) * 8**-0.5).softmax(0) @ x),
                               ("probabilities transposed", lambda self, x: ((x @ x.T) * 8**-0.5).softmax(-1).T @ x),
                               ("scores transposed", lambda self, x: ((x @ x.T) * 8**-0.5).T.softmax(-1) @ x),
                               ("probabilities are the second factor", lambda self, x: x @ ((x @ x.T) * 8**-0.5).softmax(-1)),
                               ("a value inside is returned", lambda self, x: (lambda s: (x * s, s))(torch.sigmoid(x)))):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(self.refused(forward, x)[0], [])

    def test_losses_that_are_almost_an_op(self):
        x, target = torch.rand(8, 8), torch.arange(8)
        for words, forward in (("each loss", lambda self, x, t: F.cross_entropy(x, t, reduction="none")),
                               ("a softmax over rows", lambda self, x, t: F.nll_loss(F.log_softmax(x, 0), t)),
                               ("probabilities are returned", lambda self, x, t: (lambda p: (F.nll_loss(p, t), p))(F.log_softmax(x, 1)))):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(self.refused(forward, x, target)[0], [])
        self.assertEqual(self.refused(lambda self, x, t: F.nll_loss(F.log_softmax(x, 1), t), x, target)[0], ["cross_entropy"])

    def test_an_addition_with_a_factor_is_not_part_of_a_norm(self):
        self.assertEqual(self.refused(lambda self, x: F.layer_norm(torch.add(x, x, alpha=2), (8,), self.weight), torch.rand(4, 8))[0], ["layer_norm"])
        self.assertEqual(self.refused(lambda self, x: F.layer_norm(torch.add(x, x), (8,), self.weight), torch.rand(4, 8))[0], ["add_layer_norm"])

    def test_rotations_of_other_pairs(self):
        class Other(models.LlamaBlock):
            def rotated(self, x):
                half = x.shape[-1] // 2
                return x * self.cosine + torch.cat((-x[..., :half], x[..., half:]), dim=-1) * self.sine

        self.assertNotIn("rotary", [group.op for group in self.grouping(Other(), torch.rand(2, 16, 64)).groups])


class MasksTest(Case):
    def test_patterns(self):
        query, key = torch.arange(12)[:, None], torch.arange(12)[None, :]
        causal, window = key <= query, (query - key).abs() < 3
        for text, table in (("full", causal | ~causal), ("causal", causal), ("causal & window(3)", causal & window), ("causal | prefix(4)", causal | (key < 4)),
                            (None, causal.T), (None, causal[:8]), (None, ~causal)):  # fmt: skip
            self.assertEqual(torch_masks.pattern_of(table), text)

    def test_masks_of_a_graph(self):
        for mask in (models.lower(16), models.lower(16).view(1, 1, 16, 16).bool(), models.lower(16).expand(2, 4, 16, 16).contiguous()):
            found, _ = self.groups(models.Attention(mask), torch.rand(2, 16, 64))
            self.assertEqual(found[-1][:2], ("attention", "2x16 positions, 4 heads of 16, causal"))
        different = torch.stack([models.lower(16), torch.ones(16, 16)]).view(2, 1, 16, 16)  # rows of a batch with masks of their own
        self.assertNotIn("attention", [group[0] for group in self.groups(models.Attention(different), torch.rand(2, 16, 64))[0]])


class RunsTest(Case):
    def test_a_graph_that_is_run_is_the_model(self):
        for model in (models.LlamaBlock(), models.Gpt2Block(dropout=0), models.Attention(models.lower(16))):
            x = torch.rand(2, 16, 64)
            graph = self.graph(model, x)
            part = torch_times.Part(graph, graph.nodes)
            state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
            given = {name: state[graph.parameters.get(name) or graph.buffers[name]] for name in (*graph.parameters, *graph.buffers)}
            self.assertEqual(part.unknown, [])
            torch.testing.assert_close(part.run({**given, graph.inputs[0]: x})[-1], model(x))

    def test_each_group_runs_alone_with_gradients(self):
        for model in (models.LlamaBlock(), models.Gpt2Block(), models.Attention(models.lower(16))):
            grouping = self.grouping(model, torch.rand(2, 16, 64))
            for group in grouping.groups:
                part = torch_times.Part(grouping.graph, group.nodes)
                made = {name: part.random_input(name, True) for name in part.inputs}
                results = part.run(made)
                self.assertTrue(results and all(result.requires_grad for result in results), group.op)
                self.assertTrue(all(result.isfinite().all() for result in results), group.op)
                self.assertTrue({node.name for node in group.nodes} <= {node.name for node in part.nodes})

    def test_constants_are_computed_and_others_are_not(self):
        graph = self.graph(models.LlamaBlock(), torch.rand(2, 16, 64))
        mask, = (node.arguments["attn_mask"] for node in graph.nodes if node.op == "aten.scaled_dot_product_attention")
        self.assertTrue(torch.equal(torch_calls.constant(graph, mask) == 0, models.lower(16) == 1))
        self.assertIsNone(torch_calls.constant(graph, graph.outputs[0]))
        self.assertIsNone(torch_calls.constant(graph, next(iter(graph.parameters))))

    def test_nodes_that_cannot_be_run_have_a_sentence(self):
        part = torch_times.Part(graph := self.graph(models.Attention(models.lower(16)), torch.rand(2, 16, 64)), graph.nodes)
        with unittest.mock.patch.object(torch_times, "memory", lambda: 1000):
            self.assertRaisesRegex(BadInput, "more than there are here; leave out --measure", part.seconds, False)
        name = graph.nodes[-1].outputs[0]
        graph.tensors[name] = graph.tensors[name]._replace(sizes=(1,))
        self.assertRaisesRegex(BadInput, r"PyTorch cannot run its nodes \(ValueError .* the graph says \(1,\)\)", part.seconds, False)

    def test_a_constant_has_the_size_that_the_graph_says(self):
        """Otherwise a small file would take all memory."""
        graph = self.graph(models.LlamaBlock(), torch.rand(2, 16, 64))
        mask, = (node.arguments["attn_mask"] for node in graph.nodes if node.op == "aten.scaled_dot_product_attention")
        self.assertIsNotNone(torch_calls.constant(graph, mask))
        graph.tensors[mask] = graph.tensors[mask]._replace(sizes=(1,))
        self.assertIsNone(torch_calls.constant(graph, mask))

    def test_a_value_of_many_additions_is_followed_once(self):
        """Each addition has its own result twice, so a search without a memory would take 2^200 steps."""
        class Doubling(nn.Module):
            def forward(self, x):
                for _ in range(200):
                    x = x + x
                return x

        graph = self.graph(Doubling(), torch.rand(2))
        self.assertIsNone(torch_calls.constant(graph, graph.outputs[0]))
        self.assertEqual(Grouping(graph).groups, [])


class PredictionTest(Case):
    def row(self, fusion, now, levels, count=1):
        group = Grouping(self.graph(nn.Linear(8, 8), torch.rand(2, 8))).groups[0]._replace(fusion=fusion)
        facts = torch_work.OpFacts("a device", {}, torch_work.Work(), torch_work.Work())
        return torch_prediction.Row(group, count, facts, now, 0.5, levels)

    def test_gains(self):
        levels = {"aten": [1.0, 1.1, 1.2], "triton": [0.4, 0.5, 2.0], "cuda": "it said no"}
        self.assertAlmostEqual(self.row("formula by hand", (3.0, 4.0, 5.0), levels, 2).gain, 2 * 3.0)
        self.assertAlmostEqual(self.row("", (3.0, 4.0, 5.0), levels).gain, 0.6)  # beside level aten, by the same timer
        self.assertEqual(self.row("", (3.0,), {**levels, "triton": [0.4, 1.1, 2.0]}).gain, 0)  # two of three turns are not faster
        self.assertEqual(self.row("", (3.0,), {"aten": [1.0], "triton": [0.96]}).gain, 0)
        self.assertEqual(self.row("", (3.0,), {"aten": "it said no"}).gain, 0)
        self.assertAlmostEqual(self.row("formula by hand", (0.8,), {}).gain, 0.3)  # by the roofline

    def lines(self, gain, whole):
        grouping = Grouping(self.graph(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.rand(2, 8)))
        row = self.row("formula by hand", (gain,), {"aten": [0.0]})
        return "\n".join(torch_main.predictions(grouping, [row], whole, "by a clock", True, True))

    def test_a_gain_of_more_than_the_whole_is_unknown(self):
        self.assertIn("predicted gain: 500.000 ms, 50 % of it", self.lines(0.5, 1.0))
        self.assertIn("predicted gain: unknown. Groups alone would gain 2000.000 ms, more than the whole takes", self.lines(2.0, 1.0))

    def test_a_graph_without_groups_has_a_time(self):
        grouping = self.grouping(nn.Linear(8, 8).double(), torch.rand(2, 8).double())
        roofline = torch_main.rooflines(grouping)
        whole, _ = torch_main.whole_seconds(grouping, [], roofline, True, False)
        self.assertLess(whole, 1e-3)

    def test_bounds_of_measured_gains_can_fail(self):
        for gain, holds in (((10, 5, 5, 5), True), ((10, 5, 5, 1.6), False), ((10, 5, 5, 10.1), False), ((10, 9, 1, 1), False), ((10, 5, 5, 0), False)):
            self.assertEqual(torch_gains.Gain(*gain).holds, holds, gain)

    def test_work_of_nodes(self):
        graph = self.graph(models.Attention(models.lower(16)), torch.rand(2, 16, 64))
        product = next(node for node in graph.nodes if node.op == "aten.matmul")
        work = torch_work.node_work(graph, product, False)
        self.assertEqual(work, torch_work.Work(4 * (2 * 2 * 16 * 64 + 2 * 4 * 16 * 16), 2 * 2 * 4 * 16 * 16 * 16))
        self.assertEqual(torch_work.node_work(graph, product, True).flops, 3 * work.flops)
        view = next(node for node in graph.nodes if node.op == "aten.view")
        self.assertEqual((torch_patterns.passes_on(view), torch_patterns.passes_on(product)), (True, False))


if __name__ == "__main__":
    unittest.main()
