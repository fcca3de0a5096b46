# SPDX-License-Identifier: MIT
"""Compares the validation loss of trained models of both families with an independent implementation in PyTorch."""

import math
import tempfile
import unittest

import torch
import torch.nn.functional as functional
from parity_runs import trained
from training_runs import write_tokens

LAYERS, WIDTH, HEADS, SEQUENCE, VOCABULARY = 2, 24, 3, 12, 37

CONFIG = """
run: {{folder: {folder}/run, ranks: 1}}
steps: 15
batch: 8
micro_batch: 4
model: {{type: transformer, family: {family}, layers: 2, width: 24, heads: 3, sequence: 12, vocabulary: 37{more}}}
data: {{type: text, train: {folder}/tokens.bin, validation: {folder}/tokens.bin}}
optimizer: {{type: adamw, learning_rate: 5e-2}}
schedule: {{type: constant}}
"""


def causal(query, key):
    return key <= query


# The slopes of 3 heads in the code of the ALiBi paper: those of 2 heads, then the first of 4.
SLOPES = torch.tensor([1 / 16, 1 / 256, 1 / 4], dtype=torch.float64)


def attention(q, k, v, sees, alibi=False, softcap=None, sinks=None):
    """q [B, H, T, D], k and v [B, K, T, D]: head h reads the keys of group h * K / H. Softcap as in Gemma 2, and a sink of each head, which has no value,
    as in gpt-oss."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    positions = torch.arange(scores.shape[2])
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi:
        scores = scores - SLOPES[:, None, None] * (positions[:, None] - positions).abs()
    scores = torch.where(sees(positions[:, None], positions), scores, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    return scores.softmax(-1)[..., : len(positions)] @ v


def rotate(x, base, factor=1):
    half = x.shape[3] // 2
    frequency = base ** (-torch.arange(half, dtype=torch.float64) / half) / factor
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def rms_norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def forward(weights, tokens, family, key_value_heads, patterns=(causal,) * LAYERS, head=WIDTH // HEADS, query_key_norm="none",
            placement="before", gate=functional.silu, embedding_scale=1.0,
            rotary=((1e4, 1),) * LAYERS, alibi=False, softcap=None, logit_softcap=None):
    """Logits in fp64, with one pattern for each layer, by the papers: GPT-2 with learned positions and tanh GELU, Llama with rotary positions and
    SwiGLU. With ALiBi neither has other positions."""
    gpt2 = family == "gpt2"

    def linear(x, name):
        return functional.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))

    def norm(x, name):
        if gpt2:
            return functional.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-5)
        return rms_norm(x, weights[name + ".weight"])

    def norm_before(x, name):
        return x if placement == "after" else norm(x, name)

    def norm_after(x, name):
        return x if placement == "before" else norm(x, name)

    def query_key_normed(layer, x, name):
        weight = weights.get("blocks.%d.attention.%s_norm.weight" % (layer, name))
        return x if weight is None else rms_norm(x, weight)

    x = weights["embedding.weight"][tokens] * embedding_scale
    if gpt2 and not alibi:
        x = x + weights["position.weight"][: tokens.shape[1]]
    for i in range(LAYERS):
        block = "blocks.%d." % i
        qkv = linear(norm_before(x, block + "norm1"), block + "attention.qkv")
        parts = qkv.split([HEADS * head, key_value_heads * head, key_value_heads * head], -1)
        if query_key_norm == "whole":
            parts = [query_key_normed(i, part, name) for part, name in zip(parts, ("query", "key", ""))]
        q, k, v = (part.unflatten(-1, (-1, head)).transpose(1, 2) for part in parts)
        if query_key_norm == "head":
            q, k = query_key_normed(i, q, "query"), query_key_normed(i, k, "key")
        if not gpt2 and not alibi:
            q, k = rotate(q, *rotary[i]), rotate(k, *rotary[i])
        y = attention(q, k, v, patterns[i], alibi, softcap, weights.get(block + "attention.sinks"))
        y = y.transpose(1, 2).reshape(*tokens.shape, HEADS * head)
        x = x + norm_after(linear(y, block + "attention.output"), block + "attention_norm")
        y = norm_before(x, block + "norm2")
        if gpt2:
            y = functional.gelu(linear(y, block + "mlp.up"), approximate="tanh")
        else:
            gate_values, up = linear(y, block + "mlp.gate_up").chunk(2, -1)
            y = gate(gate_values) * up
        x = x + norm_after(linear(y, block + "mlp.down"), block + "mlp_norm")
    logits = norm(x, "norm") @ weights.get("head.weight", weights["embedding.weight"]).T
    return logits if logit_softcap is None else logit_softcap * torch.tanh(logits / logit_softcap)


class PytorchParityTest(unittest.TestCase):
    def check(self, family, more, key_value_heads, patterns=(causal, causal), lines="", far=0.05, ignored=0, **options):
        """Returns the weights. The targets of the first `ignored` positions have no loss."""
        tokens = [(i * i + 7 * (i // 5)) % VOCABULARY for i in range(40 * SEQUENCE + 1)]
        with tempfile.TemporaryDirectory() as folder:
            write_tokens(folder + "/tokens.bin", tokens)
            weights, evaluation = trained(folder, CONFIG.format(folder=folder, family=family, more=more) + lines)
        ours = evaluation["validation_loss"]

        windows = torch.tensor(tokens)
        inputs, targets = windows[:-1].view(40, SEQUENCE), windows[1:].view(40, SEQUENCE)
        logits = forward(weights, inputs, family, key_value_heads, patterns, **options)
        theirs = functional.cross_entropy(logits[:, ignored:].flatten(0, 1), targets[:, ignored:].flatten()).item()
        self.assertLess(abs(ours - theirs), 2e-6 * theirs)
        # The model is far from its start, so that a part without effect would be found.
        self.assertGreater(abs(theirs - math.log(VOCABULARY)), far)
        return weights

    def test_gpt2(self):
        self.check("gpt2", "", HEADS)

    def test_llama_with_grouped_heads_and_an_untied_head(self):
        self.check("llama", ", key_value_heads: 1, feed_forward: 40, tied: false", 1)

    def test_llama_with_a_tied_head(self):
        self.check("llama", ", feed_forward: 40", HEADS)

    def test_heads_whose_width_is_not_that_of_the_model_divided(self):
        for head in (2, 10):
            self.check("llama", ", key_value_heads: 1, feed_forward: 40, head_width: %d" % head, 1, head=head)

    def test_biases_of_queries_keys_and_values_alone(self):
        weights = self.check("llama", ", key_value_heads: 1, feed_forward: 40, qkv_biases: true", 1)
        self.assertEqual(sorted(name for name in weights if name.endswith("bias")), ["blocks.%d.attention.qkv.bias" % i for i in range(LAYERS)])
        # They start at 0, so a bias that is not trained or not added would be found.
        self.assertGreater(min(weights["blocks.%d.attention.qkv.bias" % i].abs().max().item() for i in range(LAYERS)), 0.05)

    def test_norms_of_queries_and_keys(self):
        for kind, widths in (("head", (8, 8)), ("whole", (HEADS * 8, 8))):
            weights = self.check("llama", ", key_value_heads: 1, feed_forward: 40, query_key_norm: " + kind, 1, query_key_norm=kind)
            for name, width in zip(("query", "key"), widths):
                norms = [weights["blocks.%d.attention.%s_norm.weight" % (i, name)] for i in range(LAYERS)]
                self.assertEqual([len(norm) for norm in norms], [width] * LAYERS)
                # They start at 1.
                self.assertGreater(min((norm - 1).abs().max().item() for norm in norms), 0.05)
        # Without rotary positions norms of heads are another op.
        more = ", key_value_heads: 1, feed_forward: 40, query_key_norm: head, alibi: true"
        self.check("llama", more, 1, query_key_norm="head", alibi=True)

    def test_norms_after_the_branches(self):
        for family, more in (("gpt2", ""), ("llama", ", key_value_heads: 1, feed_forward: 40")):
            for place, norms in (("after", {"attention_norm", "mlp_norm"}), ("both", {"attention_norm", "mlp_norm", "norm1", "norm2"})):
                weights = self.check(family, more + ", norm_placement: " + place, HEADS if family == "gpt2" else 1, far=0.02, placement=place)
                self.assertEqual({name.split(".")[2] for name in weights if name.startswith("blocks.") and "norm" in name}, norms)

    def test_the_gate_of_gemma(self):
        self.check("llama", ", key_value_heads: 1, feed_forward: 40, gate: gelu_tanh", 1,
                   gate=lambda x: functional.gelu(x, approximate="tanh"))

    def test_scaled_embeddings(self):
        for family, more in (("gpt2", ""), ("llama", ", feed_forward: 40")):
            for text, scale in (("sqrt_width", math.sqrt(WIDTH)), ("0.3", 0.3)):
                self.check(family, more + ", embedding_scale: " + text, HEADS, embedding_scale=scale)

    def test_rotary_positions_of_each_layer(self):
        more = ", key_value_heads: 1, feed_forward: 40, rotary_base: 50, rotary_scaling: {type: linear, factor: 4}"
        self.check("llama", more, 1, rotary=((50, 4), (50, 4)))
        self.check("llama", more, 1, lines="layers: [{only: 1, rotary_base: 7}]\n", rotary=((50, 4), (7, 1)))
        self.check("llama", more, 1, lines="layers: [{only: 0, rotary_base: 7, rotary_scaling: {type: linear, factor: 2}}]\n",
                   rotary=((7, 2), (50, 4)))

    def test_a_pattern_for_each_layer(self):
        patterns = (lambda query, key: (key <= query) & (query - key < 2), lambda query, key: (key <= query) | (key < 3))
        for family, more in (("gpt2", ""), ("llama", ", key_value_heads: 1, feed_forward: 40")):
            self.check(family, more + ", attention: causal | prefix(3)", HEADS if family == "gpt2" else 1, patterns,
                       "layers: [{only: 0-1 step 2, attention: causal & window(2)}]\n", ignored=2)

    def test_terms_of_scores(self):
        llama = ", key_value_heads: 1, feed_forward: 40"
        for family, more, key_value_heads in (("gpt2", "", HEADS), ("llama", llama, 1)):
            weights = self.check(family, more + ", alibi: true", key_value_heads, alibi=True)
            self.assertNotIn("position.weight", weights)
            self.check(family, more + ", softcap: 0.05", key_value_heads, softcap=0.05)
            weights = self.check(family, more + ", sinks: true", key_value_heads, far=0)  # that sinks are not 0 shows that they have learnt
            for name in ("blocks.0.attention.sinks", "blocks.1.attention.sinks"):
                self.assertGreater(weights[name].abs().min().item(), 1e-3)
        weights = self.check("llama", llama + ", alibi: true, softcap: 0.5, sinks: true", 1, alibi=True, softcap=0.5)
        self.assertEqual(weights["blocks.1.attention.sinks"].shape, (HEADS,))

    def test_capped_logits(self):
        """As two ops, and as one op at both of its ways to compute."""
        for family, more in (("gpt2", ""), ("llama", ", feed_forward: 40")):
            for kernels in ("aten", "aten, linear_cross_entropy: aten", "aten, linear_cross_entropy: torchscript"):
                self.check(family, more + ", logit_softcap: 2", HEADS, lines="kernels: {default: %s}\n" % kernels, logit_softcap=2)


if __name__ == "__main__":
    unittest.main()
