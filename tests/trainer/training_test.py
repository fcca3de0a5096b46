# SPDX-License-Identifier: MIT
"""Runs the train program on 1 to 4 ranks: equal on any number of ranks, resumed bit for bit, and ended by every
fault as documented."""

import os
import re
import signal
import subprocess
import time
import unittest

from training_runs import DEVICE, EVERY, FAMILIES, TRAIN, TrainingRuns, command_of_ranks, expect_fault, for_each_family, for_families, rank_processes, write_tokens


START_SECONDS = 10 if DEVICE == "cpu" else 40  # start of a run next to others
# NCCL connects the ranks within this time.
HANG_SECONDS = 4 if DEVICE == "cpu" else 12


def is_stopped(process):
    with open("/proc/%d/stat" % process, encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


class TrainingTest(TrainingRuns):
    @for_each_family
    def test_any_number_of_ranks_learns_the_same(self, family, *overrides):
        counts = (1, 2, 3, 4) if EVERY or DEVICE == "cuda" or family == "language" else (1, 3)
        runs = {ranks: "%s_on_%d" % (family, ranks) for ranks in self.some_ranks(*counts)}
        for ranks, run in runs.items():
            self.train(run, "steps=6", *overrides, ranks=ranks, batch=96)
        one = self.losses(runs[1])
        evaluations = {ranks: [line for line in self.lines(run) if "validation_loss" in line] for ranks, run in runs.items()}
        for ranks in list(runs)[1:]:
            self.assertEqual(self.hashes(runs[ranks])[0], self.hashes(runs[1])[0])
            several = self.losses(runs[ranks])
            self.assertLess(abs(several[0] - one[0]), 1e-6 * one[0])
            for a, b in zip(several, one, strict=True):
                self.assertLess(abs(a - b), 1e-4 * b)
            self.assertEqual(len(evaluations[ranks]), 1)
            for name, value in evaluations[1][0].items():  # the loss and the other metrics of the family
                self.assertLessEqual(abs(evaluations[ranks][0][name] - value), 1e-4 * value, name)

    def test_all_neighbors_of_all_nodes_are_the_whole_graph(self):
        for convolution in ("sage", "sage, reduction: max", "gcn", "gin", "gat, heads: 3"):
            model = ["model={type: graph_network, convolution: %s, projection: sparse, features: 30, layers: 3, width: 24, classes: 4, residual: true}" % convolution,
                     "evaluation.tokens=0", "steps=4"]
            data = "data={type: graph, file: %s/graph.npz, partition: contiguous, neighbors: %s}"
            name = convolution.split(":")[-1].strip()
            self.train("whole_" + name, *model, data % (self.data, "all"), "micro_batch=1", batch=1, ranks=1)
            for ranks in self.some_ranks(1, 3):
                run = "%s_on_%d" % (name, ranks)
                # All 150 training nodes are used, and none of them has 300 neighbors.
                self.train(run, *model, data % (self.data, "[300, 300, 300]"), "micro_batch=25", batch=150, ranks=ranks)
                self.expect_same_losses(run, "whole_" + name)
                self.assertEqual(*([line["validation_accuracy"] for line in self.lines(each) if "validation_accuracy" in line] for each in (run, "whole_" + name)))

    def test_many_graphs_are_dropped_the_same_in_any_micro_batches(self):
        overrides = [text.format(data=self.data) for text in FAMILIES["many_graphs"]]
        self.train("small", "steps=4", *overrides, "micro_batch=8", batch=48, ranks=1)
        for ranks in self.some_ranks(1, 2):
            self.train("large%d" % ranks, "steps=4", *overrides, "micro_batch=24", batch=48, ranks=ranks)
            self.expect_same_losses("large%d" % ranks, "small")

    def test_sampled_neighbors_teach_as_much_as_all(self):
        common = ["model={type: graph_network, convolution: sage, projection: sparse, features: 30, layers: 2, width: 24, classes: 4, norm: true, dropout: 0.1}",
                  "evaluation.tokens=0", "steps=60", "schedule={type: cosine, final: 0}"]
        data = "data={type: graph, file: %s/graph.npz, partition: contiguous, neighbors: %s}"
        self.train("all", *common, data % (self.data, "all"), "micro_batch=1", batch=1, ranks=1)
        self.train("some", *common, data % (self.data, "[5, 5]"), "micro_batch=15", batch=30)  # of about 10 neighbors
        whole, sampled = ([line["validation_accuracy"] for line in self.lines(run) if "validation_accuracy" in line][-1] for run in ("all", "some"))
        self.assertGreater(whole, 0.85)
        self.assertGreater(sampled, whole - 0.041)  # 3 of 75 nodes

    @for_families("language", "vision", "graph")  # the other families differ only in their data
    def test_strategies_learn_the_same(self, family, *overrides):
        self.train(family, "steps=6", *overrides)
        norm = "rms_norm" if family == "language" else "layer_norm"
        strategies = {
            "none": "sharding.strategy=none",
            "kept": "sharding.reshard_after_forward=false",
            "once": "sharding.accumulate=full",
            "again": "gradient_checkpointing=full",
            "cheap": "gradient_checkpointing=[0 selective, 2]",
            "types": "precision.layers=[{only: 1, compute: float32}]",
            "mixed": "kernels.layers=[{only: 0-1, %s: torchscript, linear: torchscript}]" % norm,
        }
        if not EVERY and family != "language":  # each of the others has every other strategy
            strategies = dict(list(strategies.items())[family == "graph"::2])
        for name, override in strategies.items():
            self.train(family + "_" + name, "steps=6", *overrides, override)
            self.expect_same_losses(family + "_" + name, family)

    def test_hybrid_sharding_learns_the_same(self):
        self.train("full", "steps=6", ranks=4, batch=32)
        self.train("hybrid", "steps=6", "sharding.strategy=hybrid", "sharding.shard_ranks=2", ranks=4, batch=32)
        self.expect_same_losses("hybrid", "full")

    def test_a_repeated_run_and_its_resolved_configuration_give_the_same_bits(self):
        self.train("first")
        self.train("second")
        self.train("third", "run.folder=" + self.path("third"), config=self.path("first", "resolved.yaml"))
        for run in ("second", "third"):
            self.assertEqual(self.losses(run), self.losses("first"))
            self.assertEqual(self.hashes(run), self.hashes("first"))
        self.train("first")
        self.assertRegex(self.output, r"resumed from step \d+, the last one: nothing is left to train")
        self.assertEqual(self.losses("second"), self.losses("first"))
        self.train("first", "run.seed=77", expect=2)
        self.assertIn("holds another run, which differs in what may not change: run.seed: was", self.errors)
        with open(self.path("first", "kernels.txt"), encoding="utf-8") as file:
            self.assertIn("layers 0-2", file.read())

    @for_each_family
    def test_a_killed_rank_ends_the_run_and_resuming_gives_the_same_bits(self, family, *overrides):
        whole, killed = family + "_whole", family + "_killed"
        self.train(whole, *overrides)
        faults = {"STRATA_FAULTS": "1"}
        begin = time.monotonic()
        self.train(killed, *overrides, "fault={at: step 16 rank 1, kind: kill}", environment=faults, expect=137)
        self.assertLess(time.monotonic() - begin, START_SECONDS + 5)
        self.train(killed, *overrides)
        # The checkpoint of step 15 may be incomplete; that of step 10 was complete before the next one began.
        self.assertRegex(self.output, "resumed from step 1[05]")
        self.assertEqual(self.losses(killed), self.losses(whole))
        self.assertEqual(self.hashes(killed), self.hashes(whole))
        self.assertEqual(*([line for line in self.lines(run) if "validation_loss" in line] for run in (killed, whole)))
        # The minimum over single steps is used, because the loss of mixed images depends on their shares.
        self.assertLess(min(self.losses(whole, first=11)), 0.9 * self.losses(whole)[0], "it learns nothing")

    def test_a_checkpoint_loads_on_any_number_of_ranks(self):
        self.train("saved", "run.stop_after=5", batch=96)
        self.assertRegex(self.output, r"(?m)^checkpoint of step 5: the step waited \d+ ms for a copy$")
        save, = (line for line in self.lines("saved") if "save" in line)
        self.assertEqual((save["step"], save["save"]["waited_milliseconds"]), (5, 0))
        self.assertGreater(save["save"]["milliseconds"], 0)
        saved = self.hashes("saved")[5]
        for ranks in self.some_ranks(1, 3, 4):
            self.train("saved", "run.stop_after=%d" % (5 + ranks), ranks=ranks, batch=96)
            # The program compares the hash of the loaded weights with that of the checkpoint and prints it.
            self.assertIn("resumed from step", self.output)
        self.assertEqual(self.hashes("saved")[5], saved)
        self.assertEqual(len(self.losses("saved")), 5 + self.some_ranks(1, 3, 4)[-1])

    def test_a_resumed_run_may_be_sharded_in_another_way(self):
        self.train("whole", "steps=8")
        self.train("moved", "steps=8", "run.stop_after=5")
        self.train("moved", "steps=8", "sharding={strategy: none, accumulate: full}")
        self.assertIn("resumed from step 5", self.output)
        self.expect_same_losses("moved", "whole")

    def least_memory(self):
        """Returns the GiB that a refused run needs at least."""
        return float(self.errors.split("needs at least ")[1].split(" MiB")[0]) / 1024

    def test_memory_picks_what_layers_compute_again_and_a_resumed_run_repeats_it(self):
        model = ["model.width=48", "model.feed_forward=96", "model.sequence=64", "steps=6", "run.stop_after=4"]
        prediction = "what a step takes"

        def checkpointing(run):
            with open(self.path(run, "resolved.yaml"), encoding="utf-8") as file:
                return next(line.strip() for line in file if line.startswith("gradient_checkpointing:"))

        self.train("plain", *model)
        self.assertNotIn(prediction, self.output)
        self.train("much", *model, "memory_budget=64")
        self.assertIn(prediction, self.output)
        self.assertEqual(checkpointing("much"), "gradient_checkpointing: none  # memory_budget")
        self.train("little", *model, "memory_budget=1e-6", expect=6)
        enough = "memory_budget=%.6f" % (self.least_memory() + 0.1 / 1024)
        self.train("some", *model, enough)
        chosen = checkpointing("some")
        self.assertRegex(chosen, r"full|selective|\[")
        for run in ("much", "some"):
            self.assertEqual(self.losses(run), self.losses("plain"))
            self.assertEqual(self.hashes(run), self.hashes("plain"))
        self.train("some", *model, enough, "run.stop_after=0")
        self.assertNotIn(prediction, self.output)
        self.assertEqual(checkpointing("some").split("  #")[0], chosen.split("  #")[0])
        self.assertEqual(len(self.losses("some")), 6)

    def test_what_memory_picked_must_still_fit_when_a_run_goes_on(self):
        model = ["model.width=48", "model.feed_forward=96", "model.sequence=64", "steps=4", "run.stop_after=2"]
        self.train("much", *model, "memory_budget=64", "micro_batch=4")
        most = float(re.search(r"gradient_checkpointing: none takes ([0-9.]+) MiB", self.output)[1])
        tight = [*model, "memory_budget=%.6f" % (1.01 * most / 1024)]
        self.train("tight", *tight, "micro_batch=4")
        self.train("tight", *tight, "run.stop_after=0", expect=6)
        self.assertRegex(self.errors, r"memory_budget: [0-9.]+ MiB do not hold a step: gradient_checkpointing: none takes [0-9.]+ MiB")
        self.assertIn("micro_batch=4: half the activations", self.errors)
        self.assertNotIn("gradient_checkpointing=", self.errors)  # a resumed run cannot change it
        self.train("tight", *tight, "micro_batch=4", "run.stop_after=0")
        self.assertEqual(self.losses("tight")[:2], self.losses("much"))

    def test_ways_that_are_named_must_fit_into_memory(self):
        model = ["model.width=48", "model.feed_forward=96", "model.sequence=64", "steps=4"]
        self.train("large", *model, "gradient_checkpointing=[0-1]", "memory_budget=0.001", ranks=1, batch=16, expect=6)
        self.assertFalse(os.path.exists(self.path("large")))
        head, *lines = self.errors[self.errors.index("memory_budget: 1.024"):].splitlines()
        found = re.fullmatch(r"memory_budget: 1\.024 MiB do not hold a step: gradient_checkpointing: \[0-1\] takes ([0-9.]+) MiB as predicted", head)
        self.assertTrue(found, head)
        most = float(found[1])
        self.assertRegex("\n".join(lines), r"master weights .*\n(.*\n)+ +activations that layers keep .*\n(.*\n)+ +most at once .* %.2f MiB" % most)
        start = lines.index("what needs less, the cheapest first:")
        remedies = lines[start + 1:-1]
        self.assertIn(len(remedies), (2, 3))
        self.assertIn("micro_batch=4: half the activations", remedies[0])
        for line in remedies:  # each line gives the memory of a step with that change
            if "more ranks" not in line:
                self.assertLess(float(re.search(r"\(([0-9.]+) MiB\)$", line)[1]), most)
        self.assertEqual(lines[-1], "without gradient_checkpointing, memory_budget picks what fits")
        self.train("fits", *model, "gradient_checkpointing=[0-1]", "memory_budget=%.6f" % (1.001 * most / 1024), ranks=1, batch=16)
        self.assertIn("memory_budget: gradient_checkpointing: [0-1] takes %.3f MiB as predicted, of " % most, self.output)
        self.train("near", *model, "gradient_checkpointing=[0-1]", "memory_budget=%.6f" % (0.999 * most / 1024), ranks=1, batch=16, expect=6)
        self.assertIn("gradient_checkpointing: [0-1] takes %.3f MiB as predicted" % most, self.errors)
        self.train("all", *model, "gradient_checkpointing=[0-1]", ranks=1, batch=16)
        self.assertEqual(self.losses("fits"), self.losses("all"))

    @for_families("graph", "many_graphs")
    def test_memory_of_graphs_is_predicted_from_their_data(self, family, *overrides):
        overrides = [*overrides, "model.width=96"]
        self.train("large_" + family, *overrides, "gradient_checkpointing=selective", "memory_budget=1e-5", expect=6)
        self.assertRegex(self.errors, r"gradient_checkpointing: selective takes [0-9.]+ MiB as predicted\n(.*\n)+ +activations that layers keep ")
        self.train("fits_" + family, *overrides, "gradient_checkpointing=selective", "memory_budget=1")
        self.train("little_" + family, *overrides, "memory_budget=1e-6", expect=6)
        self.assertRegex(self.errors, r" with gradient_checkpointing: .*\n +master weights ")
        self.train("least_" + family, *overrides, "memory_budget=%.6f" % (self.least_memory() + 2e-6))
        self.assertRegex(self.output, r"memory_budget: gradient_checkpointing: (full|selective|\[.+\]) takes ")
        self.train("picked_" + family, *overrides, "memory_budget=1")
        self.assertIn("memory_budget: gradient_checkpointing: none takes ", self.output)
        for run in ("fits_", "least_"):
            self.assertEqual(self.losses(run + family), self.losses("picked_" + family))

    def test_a_stop_request_saves_and_the_run_goes_on(self):
        process = self.start("stopped", "steps=100000", "schedule={type: constant}")
        self.wait_for_a_step(process, "stopped")
        os.kill(rank_processes(process.pid)[1], signal.SIGUSR1)  # one rank is asked, and all stop
        output, errors = process.communicate(timeout=60)
        expect_fault(self, "SIGUSR1 to one rank", 75, process.returncode, output + errors)
        step = self.lines("stopped")[-1]["step"]
        self.assertNotIn("validation_loss", self.lines("stopped")[-1])
        for _ in range(2):  # the missing evaluation of the last step is done once
            self.train("stopped", "steps=100000", "schedule={type: constant}", "run.stop_after=%d" % step)
            self.assertIn("resumed from step %d, the last one: nothing is left to train" % step, self.output)
            evaluated = [line["validation_tokens"] for line in self.lines("stopped") if line["step"] == step and "validation_tokens" in line]
            self.assertEqual(evaluated, [996])
        self.train("stopped", "steps=100000", "schedule={type: constant}", "run.stop_after=%d" % (step + 2))
        self.assertIn("resumed from step %d" % step, self.output)

    def test_a_stop_request_in_the_last_step_leaves_the_evaluation_to_the_resumed_run(self):
        once = ["model.layers=1", "micro_batch=16"]  # the fault strikes in each layer of each micro-batch
        process = self.start("last", "steps=4", *once, "fault={at: step 4 rank 0, kind: hang}", ranks=1, environment={"STRATA_FAULTS": "1"})
        self.wait_for_a_step(process, "last")
        rank = rank_processes(process.pid)[0]
        self.wait_for(process, "last", lambda: is_stopped(rank))
        os.kill(rank, signal.SIGUSR1)  # the step that is under way carries it
        os.kill(rank, signal.SIGCONT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, output + errors)
        self.assertEqual([line["step"] for line in self.lines("last") if "validation_loss" in line], [])
        self.assertTrue(os.path.exists(self.path("last", "checkpoints/step-00000004")))
        self.train("last", "steps=4", *once, ranks=1)
        self.assertEqual([line["step"] for line in self.lines("last") if "validation_loss" in line], [4])

    def test_a_long_evaluation_is_no_hang_and_comes_after_the_last_checkpoint(self):
        write_tokens(self.data + "/validation.bin", [(i * i + 7 * (i // 5)) % 37 for i in range(40000)])
        timeout = HANG_SECONDS / 8
        process = self.start("long", "run.timeout=%g" % timeout, "steps=1", "schedule={type: constant}", "micro_batch=1", "run.threads=1", ranks=1)
        self.wait_for_a_step(process, "long")
        begin = time.monotonic()
        self.wait_for(process, "long", lambda: os.path.exists(self.path("long", "checkpoints/step-00000001")))
        self.assertFalse([line for line in self.lines("long") if "validation_loss" in line])
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertGreater(time.monotonic() - begin, 1.5 * timeout)
        self.assertRegex(output, r"(?m)^evaluating all 3333 validation samples after the last step$")
        self.assertEqual([line["step"] for line in self.lines("long") if "validation_loss" in line], [1])

    def test_a_gradient_that_is_not_finite_stops_the_run_and_is_named(self):
        faults = {"STRATA_FAULTS": "1"}
        self.train("nan", "fault={at: step 3 rank 1, kind: nan}", environment=faults, expect=5, fault="NaN in a gradient")
        report = self.error("nan")
        self.assertEqual((report["code"], report["step"]), (5, 3))
        self.assertRegex(report["message"], r"rank 1: 1 of \d+ gradients of [a-z0-9_.]+ \(group [a-z0-9.]+\)")
        self.assertNotIn("rank 0:", report["message"])

        self.train("skip", "fault={at: step 3 rank 1, kind: nan}", "run.on_nonfinite=skip", environment=faults)
        skipped = [line["step"] for line in self.lines("skip") if line.get("skipped")]
        self.assertEqual(skipped, [3])
        self.assertTrue(all(loss is not None for loss in self.losses("skip")))

    def test_a_hung_rank_is_named(self):
        begin = time.monotonic()
        self.train("hung", "run.timeout=%d" % HANG_SECONDS, "fault={at: step 3 rank 1, kind: hang}", environment={"STRATA_FAULTS": "1"}, expect=7)
        self.assertLess(time.monotonic() - begin, START_SECONDS + HANG_SECONDS + 11)
        self.assertIn("rank 1", self.error("hung")["message"])

    def test_a_collective_too_many_names_both_sides(self):
        self.train("extra", "fault={at: step 1 rank 1, kind: extra_collective}", environment={"STRATA_FAULTS": "1"}, expect=7,
                   fault="a collective too many")
        self.assertRegex(self.error("extra")["message"], r"(?s)rank 0.*rank 1|rank 1.*rank 0")

    def test_an_exception_is_the_first_cause(self):
        self.train("thrown", "fault={at: step 2 rank 1, kind: exception}", environment={"STRATA_FAULTS": "1"}, expect=70, fault="exception")
        report = self.error("thrown")
        self.assertEqual((report["rank"], report["step"], report["phase"]), (1, 2, "forward"))
        self.assertIn("fault.kind", report["message"])

    def test_ranks_with_different_configurations_are_refused(self):
        train = [TRAIN, self.config("differ", 16), "run.device=" + DEVICE]
        command = command_of_ranks(1, *train, ":", "-n", "1", *train, "batch=32")
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "(?s)rank 0 has .*16.*rank 1 has .*32")

    def test_another_configuration_does_not_resume(self):
        self.train("changed", "steps=5")
        self.train("changed", "steps=5", "optimizer.weight_decay=0.2", expect=2)
        self.assertRegex(self.errors, "optimizer.weight_decay: was 0.1, now 0.2")
        self.train("changed", "steps=5", "log.every=1")

    def test_a_damaged_checkpoint_is_named_and_the_next_older_one_used(self):
        self.train("damaged", "run.stop_after=10")
        shard = self.path("damaged", "checkpoints/step-00000010/rank-00001.safetensors")
        with open(shard, "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        self.train("damaged")
        self.assertIn("rank-00001.safetensors", self.errors + self.output)
        self.assertIn("resumed from step 5", self.output)

    def test_data_that_cannot_be_used(self):
        write_tokens(self.data + "/foreign.bin", [40] * 6000)
        self.train("outside", "data.train=" + self.data + "/foreign.bin", expect=3, fault="tokens of another vocabulary")  # on two ranks, which find it together
        self.assertRegex(self.errors, "foreign.bin.*40")
        self.train("missing", "data.train=" + self.data + "/missing.bin", ranks=1, expect=3, fault="missing token file")
        self.assertIn("missing.bin", self.errors)
        vision = [text.format(data=self.data) for text in FAMILIES["vision"]]
        self.train("labels", *vision, "data.train_labels=" + self.data + "/train.images", ranks=1, expect=3, fault="images in the place of labels")
        self.assertIn("train.images: holds an array of 3 dimensions", self.errors)
        self.train("classes", *vision, "model.classes=3", ranks=1, expect=3)
        self.assertRegex(self.errors, r"train.labels: label \d+ is 3, outside of the 3 classes")
        graph = [text.format(data=self.data) for text in FAMILIES["graph"]]
        self.train("graph_classes", *graph, "model.classes=3", ranks=1, expect=3)
        self.assertRegex(self.errors, r"graph.npz: the label of node \d+ is 3, outside of the 3 classes")
        self.train("graph_features", *graph, "model.features=31", ranks=1, expect=3)
        self.assertIn("graph.npz: nodes have 30 features, and model.features asks for 31", self.errors)
        self.train("graph_dense", *graph, "model.projection=dense", ranks=1, expect=3)
        self.assertIn("graph.npz: features are sparse, which only model.projection: sparse reads", self.errors)
        os.truncate(self.data + "/validation.images", 1000)
        self.train("truncated", *vision, ranks=1, expect=3, fault="truncated images")
        self.assertRegex(self.errors, r"validation.images: says that its sizes are .*, more than a file of \d+ bytes can hold")

    def test_a_token_file_that_shrinks_while_training(self):
        process = self.start("shrunk", "steps=100000", "schedule={type: constant}")
        self.wait_for_a_step(process, "shrunk")
        os.truncate(self.data + "/train.bin", 2000)
        output, errors = process.communicate(timeout=60)
        expect_fault(self, "a token file shrinks", 3, process.returncode, output + errors)
        self.assertIn("train.bin", self.error("shrunk")["message"])

    def test_the_device_is_printed_and_recorded(self):
        self.train("device", "steps=4", "run.device=auto", ranks=1)
        self.assertRegex(self.output, r"(?m)^device: %s, because run.device is auto" % DEVICE)
        self.assertRegex(self.output, r"(?m)^communication: one rank")
        with open(self.path("device", "resolved.yaml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^  device: %s +# auto$" % DEVICE)
        self.train("device", "steps=4")  # this key may change on resume

    def test_gpus_that_are_not_there_are_refused_before_the_first_collective(self):
        environment = {"CUDA_VISIBLE_DEVICES": ""}
        for ranks in (1, 2):
            self.train("refused", "run.device=cuda", ranks=ranks, environment=environment, expect=2, fault="no GPU")
            self.assertIn("run.device is cuda, and rank 0 has no GPU of its own", self.errors)
            self.assertRegex(self.errors, r"rank %d  \S+  local rank %d  no GPU: " % (ranks - 1, ranks - 1))
        self.train("refused", "cuda_graph=on", "run.device=auto", ranks=1, environment=environment, expect=2)
        self.assertIn("cuda_graph is on, and steps cannot be captured: the run is on CPUs", self.errors)

    def test_a_run_folder_that_is_a_file_is_refused(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.train("file", expect=4, fault="a file in the place of the folder")
        self.assertIn(self.path("file"), self.errors)


if __name__ == "__main__":
    unittest.main()
