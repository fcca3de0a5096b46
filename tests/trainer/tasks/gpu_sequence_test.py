# SPDX-License-Identifier: MIT
"""Runs whose ranks share sequences, on two GPUs or more: levels, packed documents, CUDA graphs and memory."""

import json
import os
import sys
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import MOST_RANKS, TrainingRuns, write_document_ends, write_tokens  # noqa: E402

RANKS = MOST_RANKS // 2 * 2
BFLOAT16 = "precision={compute: bfloat16, reduce: float32}"
WINDOWS = ["model.attention=causal & window(100)", "layers=[{only: 1, attention: causal}]"]
DOCUMENTS = "data.documents=separate"
SIZES = ["model.sequence=512", "model.width=128", "model.heads=4", "model.key_value_heads=2", "model.head_width=64", "model.feed_forward=256", "micro_batch=2",
         "steps=8", "optimizer={type: adamw, learning_rate: 1e-3, epsilon: 1e-4}", "evaluation={every: 4, tokens: 4096}"]
# Level of attention and what a run has besides. Bounds of losses are relative. In bfloat16 they are those of two sums in another order.
RUNS = {
    "triton in fp32": (2e-5, ["kernels.attention=triton"]),
    "windows at triton in fp32": (2e-5, ["kernels.attention=triton", *WINDOWS]),
    "documents at triton in fp32": (2e-5, ["kernels.attention=triton", *WINDOWS, DOCUMENTS]),
    "aten in fp32": (2e-5, ["kernels.attention=aten", *WINDOWS]),
    "triton": (5e-3, [BFLOAT16, "kernels.attention=triton"]),
    "terms": (5e-3, [BFLOAT16, "kernels.attention=triton", "model.alibi=true", "model.softcap=5", "model.sinks=true"]),
    "aten": (5e-3, [BFLOAT16, "kernels.attention=aten", DOCUMENTS]),
    "cuda": (5e-3, [BFLOAT16, "kernels.attention=cuda"]),
    "windows at cuda": (5e-3, [BFLOAT16, "kernels.attention=cuda", *WINDOWS]),
    "recomputed": (5e-3, [BFLOAT16, "kernels.attention=cuda", "gradient_checkpointing=full"]),
}


@unittest.skipUnless(os.environ.get("STRATA_TEST_DEVICE") == "cuda" and MOST_RANKS > 1, "needs STRATA_TEST_DEVICE=cuda and two GPUs")
class GpuSequenceTest(TrainingRuns):
    def setUp(self):
        super().setUp()
        for name, tokens in (("train", 40000), ("validation", 9000)):
            write_tokens(self.data + "/%s.bin" % name, [(i * i + 7 * (i // 5)) % 37 for i in range(tokens)])
            write_document_ends(self.data + "/%s.bin" % name, [*range(100, tokens, 130), tokens])

    def numbers(self, run, name):
        return [line[name] for line in self.lines(run) if name in line]

    def test_ranks_that_share_sequences_learn_what_one_rank_learns(self):
        for name, (bound, overrides) in RUNS.items():
            with self.subTest(name):
                self.train(name, *SIZES, *overrides, ranks=1, batch=4)
                run = name + " shared"
                self.train(run, *SIZES, *overrides, "sharding.sequence=%d" % RANKS, ranks=RANKS, batch=4)
                for number in ("loss", "validation_loss"):
                    numpy.testing.assert_allclose(self.numbers(run, number), self.numbers(name, number), rtol=bound, err_msg=number)
                numpy.testing.assert_allclose(self.numbers(run, "gradient_norm"), self.numbers(name, "gradient_norm"), rtol=20 * bound)

    def test_graphs_give_the_bits_of_eager_steps(self):
        for name, overrides in {"triton": ["kernels.attention=triton", DOCUMENTS], "cuda": ["kernels.attention=cuda"],
                                "recomputed": ["kernels.attention=cuda", "gradient_checkpointing=full"]}.items():
            with self.subTest(name):
                for graph in ("off", "on"):
                    self.train(graph + name, "cuda_graph=" + graph, *SIZES, BFLOAT16, *overrides, "sharding.sequence=2", ranks=RANKS, batch=2 * RANKS)
                self.assertEqual(self.losses("on" + name), self.losses("off" + name))
                self.assertEqual(self.hashes("on" + name), self.hashes("off" + name))

    def test_a_rank_needs_less_memory_for_the_same_batch(self):
        sizes = [*SIZES, "model.sequence=4096", "model.width=512", "evaluation={every: 0, tokens: 4096}", BFLOAT16, "kernels.attention=triton", "micro_batch=1"]
        self.train("alone", *sizes, ranks=1, batch=1)
        self.train("shared", *sizes, "sharding={strategy: none, sequence: 2}", ranks=2, batch=1)
        alone, shared = (max(line["memory_bytes"] for line in self.lines(run) if "memory_bytes" in line) for run in ("alone", "shared"))
        print(json.dumps({"alone": alone, "shared": shared}))
        self.assertLess(shared, 0.8 * alone)


if __name__ == "__main__":
    unittest.main()
