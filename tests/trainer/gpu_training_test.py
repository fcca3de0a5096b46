# SPDX-License-Identifier: MIT
"""Compares runs on GPUs with runs on CPUs and with other runs on GPUs: steps as CUDA graphs, checkpoints that change
the device, graphs when a rank fails, too little memory, refused environments."""

import collections
import json
import os
import re
import signal
import time
import unittest

from training_runs import MOST_RANKS, TrainingRuns, for_each_family, rank_processes

NVTX_NAMES = os.environ.get("STRATA_TEST_NVTX") or os.path.abspath("tests/trainer/profile/libnvtx_names.so")
RANKS = MOST_RANKS
BATCH = 8 * RANKS  # one micro-batch per rank
BFLOAT16 = "precision={compute: bfloat16, reduce: float32}"
TERMS = ["model.alibi=true", "model.softcap=5", "model.sinks=true"]
ENDLESS = ["cuda_graph=on", "steps=100000", "schedule={type: constant}", "evaluation={every: 0}", BFLOAT16]


@unittest.skipUnless(os.environ.get("STRATA_TEST_DEVICE") == "cuda", "needs STRATA_TEST_DEVICE=cuda and GPUs")
class GpuTrainingTest(TrainingRuns):
    def test_graphs_give_the_bits_of_eager_steps(self):
        """Also with accumulation, dropout, evaluation and checkpoints between replays."""
        for name, overrides in {
            "plain": [BFLOAT16],
            "kept": [BFLOAT16, "sharding.reshard_after_forward=false"],
            "recomputed": [BFLOAT16, "gradient_checkpointing=full"],
            "selective": [BFLOAT16, "gradient_checkpointing=[0-1 selective]", "precision.layers=[{only: 1, compute: float32}]"],
            "reduced": ["precision={compute: bfloat16, reduce: bfloat16}"],
            "reduced once": ["precision={compute: bfloat16, reduce: bfloat16}", "sharding.accumulate=full"],
            "documents": [BFLOAT16, "data.documents=separate"],
            "documents in windows": [BFLOAT16, "data.documents=separate", "model.attention=causal & window(5)"],
            "documents at aten": [BFLOAT16, "data.documents=separate", "kernels.attention=aten"],
            "terms": [BFLOAT16, "kernels.attention=triton", *TERMS],
            # cuDNN adds the gradients of sinks in an order that varies, unless bits count.
            "softcap and sinks at cuda": [BFLOAT16, "kernels.attention=cuda", "model.softcap=5", "model.sinks=true", "run.deterministic=true"],
            "alibi and sinks at cuda": [BFLOAT16, "kernels.attention=cuda", "model.alibi=true", "model.sinks=true", "run.deterministic=true"],
            "terms at aten": [BFLOAT16, "kernels.attention=aten", *TERMS],
            "norms and gate and tables": [BFLOAT16, "data.documents=separate", "model.query_key_norm=head", "model.norm_placement=both", "model.gate=gelu_tanh",
                                       "model.embedding_scale=sqrt_width", "layers=[{only: 1, rotary_base: 100}]"],
            "fused": [BFLOAT16, "kernels={default: cuda, linear_cross_entropy: cuda}"],
            # Captured at step 4 and anew at step 10.
            "pruned from step 7 on": [BFLOAT16, "model.feed_forward=44", "sparsity={pattern: 2:4, only: mlp, from_step: 7}"],
        }.items():
            with self.subTest(name):
                self.train("eager-" + name, "cuda_graph=off", "steps=12", *overrides, ranks=RANKS, batch=2 * BATCH)
                self.train("graph-" + name, "cuda_graph=on", "steps=12", *overrides, ranks=RANKS, batch=2 * BATCH)
                self.assertNotIn(None, self.losses("eager-" + name))
                self.assertEqual(self.losses("graph-" + name), self.losses("eager-" + name))
                self.assertEqual(self.hashes("graph-" + name), self.hashes("eager-" + name))

    def test_every_way_to_gather_gives_the_same_bits(self):
        """Also in a graph, with parameters that are gathered twice per step, once per step, and in groups of ranks."""
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
        """A profile of replays counts the kernels of each op and layer as a profile of eager steps does. The host
        waits in neither."""
        counted = {}
        for graph in ("off", "on"):
            run = "profile-" + graph
            self.train(run, "cuda_graph=" + graph, "steps=9", "profile.steps=7-8", BFLOAT16, ranks=RANKS, batch=BATCH)
            with open(self.path(run, "profile/rank-0.jsonl"), encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            steps = [line for line in lines if "op" not in line]
            self.assertEqual([(step["step"], step["cuda_graph"], step["difference"], step["host_waits"]) for step in steps],
                             [(7, graph == "on", None, 0), (8, graph == "on", None, 0)])
            counted[graph] = [(op["op"], op["backward"], op["layer"], op["level"], op["calls"],
                               sum(kernel["calls"] for kernel in op["kernels"]))
                              for op in lines if op.get("phase") in ("forward", "backward", "optimizer")]
        self.assertGreater(len(counted["on"]), 50)
        self.assertEqual(counted["on"], counted["off"])

    def test_profiled_steps_have_ranges_of_nvtx(self):
        """There is a range for each step, phase, layer, op and collective, with the names of the profile."""
        names = os.path.join(self.folder, "names")
        self.train("ranges", "cuda_graph=off", "steps=5", "profile.steps=3-4", "gradient_checkpointing=full", BFLOAT16,
                   "kernels={default: cuda}", ranks=RANKS, batch=BATCH,
                   environment={"NVTX_INJECTION64_PATH": NVTX_NAMES, "STRATA_TEST_NVTX_FILE": names})
        with open(names, encoding="utf-8") as file:
            opened = collections.Counter(file.read().splitlines())
        for name, times in {"step 3": 1, "step 4": 1, "step 5": 0, "forward": 2, "optimizer": 2, "layer 1": 2, "attention/cuda": 12,
                            "attention/cuda/backward": 6, "all_reduce loss and gradient norm": 2}.items():
            self.assertEqual(opened[name], RANKS * times, (name, opened))

    def test_checkpointing_gives_the_bits_of_keeping_all(self):
        """All runs here are deterministic. Levels with epilogues are tested too. sharded_gradients_test tests this
        on CPUs."""
        for name, model in {"llama": [], "gpt2": ["model.family=gpt2"]}.items():
            for level in ("aten", "cuda"):
                at_level = [BFLOAT16, "steps=4", "kernels={default: %s}" % level, *model]
                self.train("none-%s-%s" % (name, level), *at_level, ranks=RANKS, batch=BATCH)
                for way, layers in {"selective": "selective", "mixed": "[0, 1-2 selective]"}.items():
                    with self.subTest("%s %s %s" % (name, level, way)):
                        run = "%s-%s-%s" % (way, name, level)
                        self.train(run, "gradient_checkpointing=" + layers, *at_level, ranks=RANKS, batch=BATCH)
                        self.assertEqual(self.losses(run), self.losses("none-%s-%s" % (name, level)))
                        self.assertEqual(self.hashes(run), self.hashes("none-%s-%s" % (name, level)))

    @for_each_family
    def test_the_cpu_learns_the_same(self, family, *overrides):
        for device in ("cpu", "cuda"):
            self.train("%s-on-%s" % (family, device), "steps=8", *overrides, ranks=RANKS, batch=32, device=device)
        self.expect_same_losses(family + "-on-cuda", family + "-on-cpu")

    def test_a_checkpoint_goes_from_cpus_to_gpus_and_back(self):
        self.train("whole", ranks=2, batch=32, device="cpu")
        for last, device, ranks in ((5, "cpu", 2), (10, "cuda", RANKS), (15, "cpu", 2), (20, "cuda", 1)):
            self.train("travels", "run.stop_after=%d" % last, ranks=ranks, batch=32, device=device)
            # The program compares the hash of the loaded weights with that in the checkpoint.
            if last > 5:
                self.assertIn("resumed from step %d" % (last - 5), self.output)
        self.expect_same_losses("travels", "whole")

    def saved_steps(self, run):
        folder = self.path(run, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{8}", name))

    def test_a_rank_that_dies_under_a_graph_ends_the_run_and_resuming_gives_the_same_bits(self):
        process = self.start("killed", *ENDLESS, "checkpoint.every=20", ranks=RANKS, batch=BATCH)
        self.wait_for(process, "killed", lambda: len(self.saved_steps("killed")) > 1)
        begin = time.monotonic()
        os.kill(rank_processes(process.pid)[RANKS - 1], signal.SIGKILL)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 137, output + errors)
        self.assertLess(time.monotonic() - begin, 10)
        saved = self.saved_steps("killed")[-1]
        last = ["run.stop_after=%d" % (saved + 30)]
        self.train("killed", *ENDLESS, "checkpoint.every=20", *last, ranks=RANKS, batch=BATCH)
        self.assertIn("resumed from step %d" % saved, self.output)
        self.train("unbroken", *ENDLESS, "checkpoint.every=20", *last, ranks=RANKS, batch=BATCH)
        self.assertEqual(self.losses("killed"), self.losses("unbroken"))
        self.assertEqual(self.hashes("killed"), self.hashes("unbroken"))

    def test_what_is_not_finite_in_a_captured_step_reaches_no_weights(self):
        """The fault strikes in replays, which begin after step 3. The loss of step 12 shows that the weights are finite."""
        graph = ["cuda_graph=on", "steps=12", BFLOAT16]
        self.train("clean", *graph, ranks=RANKS, batch=BATCH)
        for kind, words in {"nan": r"rank %d: 1 of \d+ gradients of [a-z0-9_.]+ \(group [a-z0-9.]+\)" % (RANKS - 1),
                            "nan_loss": "the loss is -?nan, though every gradient is finite"}.items():
            fault = "fault={at: step 8 rank %d, kind: %s}" % (RANKS - 1, kind)
            at_fault = {"ranks": RANKS, "batch": BATCH, "environment": {"STRATA_FAULTS": "1"}}
            with self.subTest(kind + ", stop"):
                run = kind + "-stop"
                self.train(run, *graph, fault, expect=5, **at_fault)
                self.assertEqual(self.error(run)["step"], 8)
                self.assertRegex(self.error(run)["message"], words)
                self.assertEqual(self.saved_steps(run), [5])
                self.train(run, *graph, ranks=RANKS, batch=BATCH)
                self.assertEqual(self.hashes(run)[12], self.hashes("clean")[12])
            with self.subTest(kind + ", skip"):
                run = kind + "-skip"
                self.train(run, *graph, fault, "run.on_nonfinite=skip", **at_fault)
                self.assertEqual([line["step"] for line in self.lines(run) if line.get("skipped")], [8])
                self.assertEqual(self.losses(run)[:7], self.losses("clean")[:7])
                self.assertNotIn(None, self.losses(run)[8:])
            with self.subTest(kind + ", rollback"):
                run = kind + "-rollback"
                self.train(run, *graph, fault, "run.on_nonfinite=rollback", **at_fault)
                self.assertEqual([(line["step"], line["rollback"]) for line in self.lines(run) if "rollback" in line], [(5, 8)])
                self.assertEqual(self.losses(run), self.losses("clean"))
                self.assertEqual(self.hashes(run), self.hashes("clean"))

    def test_a_rollback_gives_back_the_memory_of_the_captured_step(self):
        """Also that of windows. The model is large beside the workspaces of cuBLAS."""
        run = [BFLOAT16, "cuda_graph=on", "model.width=768", "model.heads=6", "model.feed_forward=2048",
               "sharding.gather=%s" % ("copy_engines" if RANKS > 1 else "shared")]
        self.train("clean", *run, ranks=RANKS, batch=BATCH)
        self.train("rolled", *run, "run.on_nonfinite=rollback", "fault={at: step 13 rank 0, kind: nan}", ranks=RANKS, batch=BATCH,
                   environment={"STRATA_FAULTS": "1"})
        self.assertEqual(self.hashes("rolled"), self.hashes("clean"))
        most = {name: max(line["memory_bytes"] for line in self.lines(name) if "memory_bytes" in line) for name in ("clean", "rolled")}
        self.assertLess(most["rolled"], 1.25 * most["clean"])

    def test_a_rank_that_hangs_under_a_graph_is_named(self):
        if RANKS == 1:
            self.skipTest("one rank waits for nobody")
        process = self.start("hung", *ENDLESS, "run.timeout=15", ranks=RANKS, batch=BATCH)
        self.wait_for_a_step(process, "hung")
        begin = time.monotonic()
        os.kill(rank_processes(process.pid)[RANKS - 1], signal.SIGSTOP)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 7, output + errors)
        self.assertLess(time.monotonic() - begin, 25)
        self.assertRegex(self.error("hung")["message"], "rank %d did not answer" % (RANKS - 1))

    def test_a_bit_that_flips_under_a_graph_is_found_and_comparisons_change_no_bit(self):
        if RANKS == 1:
            self.skipTest("one rank has no replica")
        plain = ["cuda_graph=on", "sharding.strategy=none", "steps=20", "optimizer.moving_average=0.8", BFLOAT16]
        for every in (0, 3):
            self.train("every-%d" % every, *plain, "sharding.compare_replicas_every=%d" % every, ranks=RANKS, batch=BATCH)
        self.assertEqual(self.hashes("every-3"), self.hashes("every-0"))
        for rank in (0, RANKS - 1):
            run = "flipped-on-%d" % rank
            self.train(run, *plain, "checkpoint.every=0", "sharding.compare_replicas_every=4", "fault={at: step 10 rank %d layer 1, kind: flip_weight}" % rank,
                       ranks=RANKS, batch=BATCH, expect=5, environment={"STRATA_FAULTS": "1"})
            self.assertNotIn("cuda graph: none", self.output)
            message = self.error(run)["message"]
            self.assertIn("differ after step 12; after step 8 they were equal:", message)
            self.assertIn("right: rank 0; rank 1" if RANKS == 2 else "rank %d differs from" % rank, message)

    def test_memory_that_does_not_suffice_ends_all_ranks_with_the_table_and_remedies(self):
        # The allocator may use 0.2 % of the GPU: 200 to 300 MB. Activations need 800 MB.
        model = ["model.width=384", "model.feed_forward=1024", "micro_batch=2048", BFLOAT16]
        self.train("large", *model, ranks=RANKS, batch=2048 * RANKS, expect=6,
                   environment={"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.002"})
        report = self.error("large")
        self.assertEqual((report["code"], report["step"]), (6, 1))
        for words in ("the memory of the GPU does not suffice", "master weights", "activations and what ops need besides", "of the GPU",
                      "what needs less, the cheapest first:", "micro_batch=1024", "gradient_checkpointing=selective"):
            self.assertIn(words, report["message"])

    def test_more_ranks_than_gpus_are_refused_with_the_table(self):
        command = self.start("many", "run.device=cuda", ranks=1, environment={"CUDA_VISIBLE_DEVICES": "99"})
        _, errors = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 2, errors)
        self.assertIn("no GPU: the NVIDIA driver finds no GPU, or CUDA_VISIBLE_DEVICES hides all of them", errors)
        self.train("shared", ranks=2, environment={"CUDA_VISIBLE_DEVICES": "0"}, expect=2)
        self.assertIn("rank 0 and rank 1 would share one GPU", self.errors)
        self.assertRegex(self.errors, r"rank 1  \S+  local rank 1  GPU 0 NVIDIA")
        self.train("three", ranks=3, batch=24, environment={"CUDA_VISIBLE_DEVICES": "0,1"}, expect=2)
        self.assertIn("rank 2 has no GPU of its own", self.errors)
        self.assertRegex(self.errors, r"rank 2  \S+  local rank 2  no GPU: sees 2 GPUs")

    def test_an_interface_that_does_not_exist_is_refused(self):
        self.train("interface", ranks=2, environment={"NCCL_SOCKET_IFNAME": "=nosuch0"}, expect=2)
        self.assertIn("NCCL_SOCKET_IFNAME is '=nosuch0', and no interface here fits", self.errors)

    def test_no_step_asks_for_memory_after_the_first_two(self):
        """All tests here set STRATA_STRICT_STEPS, which refuses allocations in every step. This one also checks that
        memory does not grow."""
        for graph in ("off", "on"):
            run = "memory-" + graph
            self.train(run, "steps=12", BFLOAT16, "cuda_graph=" + graph, ranks=RANKS, batch=2 * BATCH)
            peaks = [line["memory_bytes"] for line in self.lines(run) if "memory_bytes" in line]
            self.assertEqual(set(peaks[4:10]), {peaks[4]})


if __name__ == "__main__":
    unittest.main()
