# SPDX-License-Identifier: MIT
"""Runs on GPUs against runs on CPUs and against themselves: steps as CUDA graphs, checkpoints that change the device, refused environments."""

import json
import os
import unittest

from training_runs import MOST_RANKS, TrainingRuns

RANKS = min(MOST_RANKS, 2)
BFLOAT16 = "precision={compute: bfloat16, reduce: float32}"


@unittest.skipUnless(os.environ.get("STRATA_TEST_DEVICE") == "cuda", "needs STRATA_TEST_DEVICE=cuda and GPUs")
class GpuTrainingTest(TrainingRuns):
    def test_graphs_give_the_bits_of_eager_steps(self):
        """With accumulation, dropout, evaluation and checkpoints between replays."""
        for name, overrides in {
            "plain": [BFLOAT16],
            "kept": [BFLOAT16, "sharding.reshard_after_forward=false"],
            "recomputed": [BFLOAT16, "gradient_checkpointing=full"],
            "selective": [BFLOAT16, "gradient_checkpointing=[0-1 selective]", "precision.layers=[{only: 1, compute: float32}]"],
            "reduced": ["precision={compute: bfloat16, reduce: bfloat16}", "sharding.accumulate=full"],
        }.items():
            with self.subTest(name):
                self.train("eager-" + name, "cuda_graph=off", "steps=12", *overrides, ranks=RANKS, batch=32)
                self.train("graph-" + name, "cuda_graph=on", "steps=12", *overrides, ranks=RANKS, batch=32)
                self.assertEqual(self.losses("graph-" + name), self.losses("eager-" + name))
                self.assertEqual(self.hashes("graph-" + name), self.hashes("eager-" + name))

    def test_every_way_to_gather_gives_the_same_bits(self):
        """Also inside of a graph, with the parameters of a step gathered twice, once, and in groups of ranks."""
        for name, overrides in {
            "full": [],
            "kept": ["sharding.reshard_after_forward=false"],
            "fp32": ["precision={compute: float32, reduce: float32}"],
            "hybrid": ["sharding.strategy=hybrid", "sharding.shard_ranks=%d" % max(MOST_RANKS // 2, 1)],
        }.items():
            self.train("shared-" + name, BFLOAT16, *overrides, ranks=MOST_RANKS, batch=32)
            for gather in ("separate", "copy_engines"):
                for graph in ("off", "on"):
                    with self.subTest("%s %s, graph %s" % (gather, name, graph)):
                        run = "%s-%s-%s" % (gather, name, graph)
                        self.train(run, BFLOAT16, *overrides, "sharding.gather=" + gather, "cuda_graph=" + graph,
                                   ranks=MOST_RANKS, batch=32)
                        self.assertEqual(self.losses(run), self.losses("shared-" + name))
                        self.assertEqual(self.hashes(run), self.hashes("shared-" + name))

    def test_replays_are_named_by_the_eager_step(self):
        """A profile of replays counts the kernels of each op and layer as one of eager steps does."""
        counted = {}
        for graph in ("off", "on"):
            run = "profile-" + graph
            self.train(run, "cuda_graph=" + graph, "steps=9", "profile.steps=7-8", BFLOAT16, ranks=RANKS, batch=16)
            with open(self.path(run, "profile/rank-0.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            steps = [line for line in lines if "op" not in line]
            self.assertEqual([(step["step"], step["cuda_graph"], step["difference"]) for step in steps],
                             [(7, graph == "on", None), (8, graph == "on", None)])
            counted[graph] = [(op["op"], op["backward"], op["layer"], op["level"], op["calls"],
                               sum(kernel["calls"] for kernel in op["kernels"]))
                              for op in lines if op.get("phase") in ("forward", "backward", "optimizer")]
        self.assertGreater(len(counted["on"]), 50)
        self.assertEqual(counted["on"], counted["off"])

    def test_checkpointing_gives_the_bits_of_keeping_all(self):
        """In deterministic runs, as all of these are, also at levels with epilogues; on CPUs sharded_gradients_test has it."""
        for name, model in {"llama": [], "gpt2": ["model.family=gpt2"]}.items():
            for level in ("aten", "cuda"):
                model = [BFLOAT16, "steps=4", "kernels={default: %s}" % level, *model]
                self.train("none-%s-%s" % (name, level), *model, ranks=RANKS, batch=32)
                for layers in ("selective", "[0, 1-2 selective]"):
                    with self.subTest("%s %s %s" % (name, level, layers)):
                        run = "%s-%s-%s" % (name, level, layers)
                        self.train(run, "gradient_checkpointing=" + layers, *model, ranks=RANKS, batch=32)
                        self.assertEqual(self.losses(run), self.losses("none-%s-%s" % (name, level)))
                        self.assertEqual(self.hashes(run), self.hashes("none-%s-%s" % (name, level)))

    def test_the_cpu_learns_the_same(self):
        for device in ("cpu", "cuda"):
            self.train("on-" + device, "steps=8", ranks=RANKS, batch=32, device=device)
        self.expect_same_losses("on-cuda", "on-cpu")

    def test_a_checkpoint_goes_from_cpus_to_gpus_and_back(self):
        self.train("whole", ranks=RANKS, device="cpu")
        for last, device, ranks in ((5, "cpu", 2), (10, "cuda", RANKS), (15, "cpu", 1), (20, "cuda", 1)):
            self.train("travels", "run.stop_after=%d" % last, ranks=ranks, device=device)
            # The hash of the weights after loading is compared with that in the checkpoint by the program.
            if last > 5:
                self.assertIn("resumed from step %d" % (last - 5), self.output)
        self.expect_same_losses("travels", "whole")

    def test_more_ranks_than_gpus_are_refused_with_the_table(self):
        command = self.start("many", "run.device=cuda", ranks=1, environment={"CUDA_VISIBLE_DEVICES": "99"})
        _, errors = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 2, errors)
        self.assertIn("no GPU: the NVIDIA driver finds no GPU, or CUDA_VISIBLE_DEVICES hides all of them", errors)
        self.train("shared", ranks=2, environment={"CUDA_VISIBLE_DEVICES": "0"}, expect=2)
        self.assertIn("rank 0 and rank 1 would share one GPU", self.errors)
        self.assertRegex(self.errors, r"rank 1  \S+  local rank 1  GPU 0 NVIDIA")

    def test_an_interface_that_does_not_exist_is_refused(self):
        self.train("interface", ranks=2, environment={"NCCL_SOCKET_IFNAME": "=nosuch0"}, expect=2)
        self.assertIn("NCCL_SOCKET_IFNAME is '=nosuch0', and no interface here fits", self.errors)

    def test_memory_stays_what_it_was_after_the_first_steps(self):
        self.train("memory", "steps=12", BFLOAT16, "cuda_graph=off", ranks=RANKS, batch=32)
        with open(self.path("memory", "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        peaks = [line["memory_bytes"] for line in lines if "memory_bytes" in line]
        self.assertEqual(set(peaks[2:10]), {peaks[2]})


if __name__ == "__main__":
    unittest.main()
