# SPDX-License-Identifier: MIT
"""Replays steps of runs: equal bit for bit, or the first difference is named. Flipped bits are found to the step, the rank
and the place. The layer that made the first value that is not finite is saved, and run alone. On GPUs fewer families are
replayed, and cases about files and commands are left out, because they are the same on every device."""

import hashlib
import json
import os
import re
import subprocess
import unittest

import numpy

from training_runs import DEVICE, EVERY, FAMILIES, TrainingRuns, command_of_ranks, environment_of_ranks, for_families, write_tokens

REPLAY = os.environ.get("STRATA_TEST_REPLAY") or os.path.abspath("tools/replay/replay")
FAULTS = {"STRATA_FAULTS": "1"}
on_cpus = unittest.skipUnless(DEVICE == "cpu", "the same on every device, so it is checked on CPUs")
DELAYED = "precision.linear={format: fp8, scaling: delayed, history: 3}"
SHORT = ["steps=12", "evaluation.every=0"]  # with checkpoints of steps 5, 10 and 12, of which two are kept


def counts_of_ranks(family):
    return (1, 2) if DEVICE == "cpu" and (EVERY or family == "language") else (2,)


def for_some_on_gpus(*families):
    """Runs the test once for each of these families; on GPUs only for the first, because each run starts for seconds."""
    return for_families(*(families if DEVICE == "cpu" else families[:1]))


def read_safetensors(path):
    """Returns the header of the file, and a function that reads the values of one of its tensors."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])

    def values(name, dtype):
        begin, end = header[name]["data_offsets"]
        return numpy.frombuffer(data[start + begin:start + end], dtype)

    return header, values


class ReplayTest(TrainingRuns):
    def replay(self, run, *arguments, ranks=2, expect=0, environment=None):
        """Returns the last line of the output, which is the verdict."""
        command = command_of_ranks(ranks, REPLAY, self.path(run), "run.ranks=%d" % ranks, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment_of_ranks(ranks, environment))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.output, self.errors = done.stdout, done.stderr
        return done.stdout.splitlines()[-1] if done.stdout else ""

    @for_families("language", "vision", "graph", "sampled_graph")
    def test_a_replay_gives_the_same_bits(self, family, *overrides):
        for ranks in counts_of_ranks(family):
            run = "%s_on_%d" % (family, ranks)
            delayed = [DELAYED] if family == "language" and ranks == 2 else []
            self.train(run, *SHORT, *overrides, *delayed, ranks=ranks)
            self.assertLess(os.path.getsize(self.path(run, "ledger/rank-%d" % (ranks - 1))), 12 * 64 + 2000)
            self.assertEqual(self.replay(run, "--step", "12", ranks=ranks),
                             "equal: data, loss and gradient norm of steps 11 to 12, and the weights after step 12, bit for bit")
            self.assertIn("replays step 11 to 12, from the checkpoint of step 10", self.output)
            self.assertEqual(self.replay(run, "--step", "7", ranks=ranks),
                             "equal: data, loss and gradient norm of steps 1 to 7, and the weights after step 5, bit for bit")
            self.assertIn("replays step 1 to 7, from the initial weights", self.output)

    def test_a_replay_of_a_run_that_was_killed_and_resumed(self):
        self.train("killed", *SHORT, "fault={at: step 8 rank 1, kind: kill}", environment=FAULTS, expect=137)
        with open(self.path("killed", "ledger/rank-1"), "ab") as file:
            file.write(b"torn")  # in the middle of a record
        self.train("killed", *SHORT)
        self.assertEqual(self.replay("killed", "--step", "12", "--from", "0"),
                         "equal: data, loss and gradient norm of steps 1 to 12, and the weights after step 12, bit for bit")

    @on_cpus
    def test_another_number_of_ranks_agrees_within_rounding(self):
        self.train("language", *SHORT)
        verdict = self.replay("language", "--step", "12", ranks=1)
        self.assertRegex(verdict, "^equal within rounding: data, loss and gradient norm of steps 11 to 12; .*because ranks was 2 and is 1$")
        self.train("graph", *SHORT, *[text.format(data=self.data) for text in FAMILIES["graph"]])
        self.assertRegex(self.replay("graph", "--step", "12", ranks=1), "^equal within rounding: loss and .*the data are not compared")
        # The rates of another optimizer are no rounding. The file stands for a program that computes something else.
        with open(self.path("language", "resolved.yaml"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("language", "resolved.yaml"), "w", encoding="utf-8") as file:
            file.write(re.sub("learning_rate: [^ ]+", "learning_rate: 2e-2", text))
        self.assertRegex(self.replay("language", "--step", "12", "--from", "0", ranks=1, expect=5),
                         r"^different: step \d+, (loss|gradient norm): was .*rounding explains")

    @on_cpus
    def test_other_data_are_called_other_data(self):
        self.train("text", *SHORT)
        write_tokens(self.data + "/train.bin", [(i * i + 5 * (i // 3)) % 37 for i in range(6000)])
        self.assertRegex(self.replay("text", "--step", "7", expect=3), "^different: step 1, data, of all ranks: ")
        self.replay("text", "--step", "12", expect=2)
        self.assertIn("the data: was", self.errors)

    @on_cpus
    def test_steps_that_cannot_be_replayed(self):
        self.train("short", *SHORT)
        self.replay("short", "--step", "13", expect=4)
        self.assertIn("has no step 13; the last that was recorded is 12", self.errors)
        self.replay("short", "--step", "12", "--from", "7", expect=4)
        self.assertIn("no checkpoint of step 7", self.errors)
        self.replay("short", "--step", "5", "--from", "5", expect=2)
        self.replay("short", expect=2)

    def flipped(self, run, fault, *overrides, ranks):
        """Trains with a flipped bit in step 7 and layer 1 of the last rank. Returns the verdict on all steps, and the place."""
        at = "step 7 rank %d layer 1" % (ranks - 1)
        self.train(run, "steps=9", "checkpoint.every=0", "evaluation.every=0", *overrides, "fault={at: %s, kind: %s}" % (at, fault),
                   ranks=ranks, environment=FAULTS)
        verdict = self.replay(run, "--step", "9", ranks=ranks, expect=5)
        return verdict, self.replay(run, "--step", "7", "--locate", ranks=ranks, expect=5, environment=FAULTS)

    @for_some_on_gpus("language", "vision", "graph")
    def test_a_flipped_bit_is_found(self, family, *overrides):
        # A branch that stochastic depth drops hides a flip in it.
        overrides += ("model.stochastic_depth=0", "model.dropout=0") if family == "vision" else ()
        for ranks in counts_of_ranks(family):
            last = ranks - 1
            place = "different: step 7, rank %d, " % last
            if EVERY or family == "graph" or (family, ranks) == ("language", 2):
                verdict, found = self.flipped("%s_weight_%d" % (family, ranks), "flip_weight", *overrides, ranks=ranks)
                self.assertRegex(verdict, "^different: step 7, loss, rank")
                self.assertRegex(found, "^" + place + r"weights of group (blocks|layers)\.1: (blocks|layers)\.1\.")
            if EVERY or family == "vision" or (family, ranks) == ("language", 2):
                verdict, found = self.flipped("%s_gradient_%d" % (family, ranks), "flip_gradient", *overrides, ranks=ranks)
                self.assertRegex(verdict, "^different: step 7, gradient norm, rank")
                self.assertRegex(found, "^" + place + r"gradients of group (blocks|layers)\.1: (blocks|layers)\.1\.")
            verdict, found = self.flipped("%s_activation_%d" % (family, ranks), "flip_activation", *overrides, ranks=ranks)
            self.assertRegex(verdict, "^different: step 7, loss, rank")
            if family != "graph":  # its ranks exchange activations in the forward
                self.assertIn("loss, rank %d; the part of rank %d was" % (last, last), verdict)
            self.assertRegex(found, "^" + place + r"layer 1, forward: (branch|residual) that the layer returns \(after layer 1, forward: ")

    def test_of_two_replicas_that_differ_the_wrong_one_is_named(self):
        self.train("pair", *SHORT, "checkpoint.every=0", "sharding={strategy: none, compare_replicas_every: 4}",
                   "fault={at: step 6 rank 1 layer 1, kind: flip_weight}", environment=FAULTS, expect=5)
        step = re.search("tools/strata replay .* --step (\\d+)'", self.error("pair")["message"])[1]
        self.assertRegex(self.replay("pair", "--step", step, expect=5), "^different: step 6, loss, rank 1; the part of rank 1 was")

    @for_some_on_gpus("language", "graph", "many_graphs")
    def test_two_runs_without_a_fault_agree_in_every_op(self, family, *overrides):
        for ranks in counts_of_ranks(family):
            run = "%s_twice_%d" % (family, ranks)
            self.train(run, "steps=6", *overrides, ranks=ranks)
            self.assertRegex(self.replay(run, "--step", "6", "--locate", ranks=ranks), r"^equal: both runs of step 6 agree in all [1-9]\d+ outputs of rank 0")

    def test_the_first_nan_is_named(self):
        self.train("spoilt", *SHORT, "fault={at: step 3 rank 1, kind: nan}", environment=FAULTS, expect=5)
        self.assertRegex(self.replay("spoilt", "--step", "3", "--locate", expect=5, environment=FAULTS), "^different: step 3, rank 1, ")
        self.assertRegex(self.output, "(?m)^the first NaN: step 3, rank 1, ")
        self.assertRegex(self.replay("spoilt", "--step", "3", expect=5), "^different: step 3, gradient norm, rank.* was -?nan ")

    def diverged(self, run, *overrides, ranks):
        """Trains with a learning rate that makes the weights so large that a layer overflows. Returns the step that ended the run."""
        self.train(run, *SHORT, "optimizer.learning_rate=1e15", "optimizer.weight_decay=0", *overrides, ranks=ranks, expect=5)
        return int(re.match("step (\\d+): ", self.error(run)["message"])[1])

    def saved_layer(self, run, *overrides, ranks):
        """Returns the name of the folder in which a replay has saved the layer of a diverged run, and its nonfinite.json."""
        step = self.diverged(run, *overrides, ranks=ranks)
        folder = "%s/nonfinite-step-%d" % (run, step)
        said = self.replay(run, "--at-nonfinite", ranks=ranks, expect=5)
        self.assertEqual(said, "saved: tools/strata replay %s runs the layer alone" % self.path(folder))
        with open(self.path(folder, "nonfinite.json"), encoding="utf-8") as file:
            facts = json.load(file)
        self.assertEqual((facts["step"], facts["ranks"]), (step, ranks))
        self.assertIn("the first value that is not finite: step %d, rank %d, micro-batch %d, layer %d (%s), forward: %s\n" % (
            step, facts["rank"], facts["micro_batch"], facts["layer"], facts["name"], facts["op"]), self.output)
        return folder, facts

    @for_some_on_gpus("language", "vision", "mixer")
    def test_the_layer_that_overflowed_is_saved_and_overflows_alone(self, family, *overrides):
        for ranks in counts_of_ranks(family):
            folder, facts = self.saved_layer("%s_diverged_%d" % (family, ranks), *overrides, ranks=ranks)
            self.assertEqual((facts["direction"], facts["layer"], facts["name"]), ("forward", 0, "blocks.0"))
            tensors = facts["tensors"]
            for name, tensor in tensors.items():
                if tensor["saved"] and not name.startswith("output_gradient."):
                    self.assertEqual((tensor["nan"], tensor["infinite"]), (0, 0), name)
            bad = sum(tensors[name]["nan"] for name in ("output.residual", "output.branch"))
            self.assertGreater(bad, 0)
            self.assertGreater(tensors["output_gradient.residual"]["nan"] + tensors["output_gradient.branch"]["nan"], 0)
            self.assertEqual(tensors["input.residual"]["shape"][2], 24)
            header, values = read_safetensors(self.path(folder, "layer.safetensors"))
            self.assertEqual(set(header), {name for name, tensor in tensors.items() if tensor["saved"]})
            self.assertEqual("context.cosine" in header, family == "language")
            self.assertEqual(values("context.dropout_key", "<i8")[0], facts["dropout_key"])
            self.assertTrue(numpy.isfinite(values("input.residual", "<f4")).all())

            verdict = self.replay(folder, ranks=1, expect=5)
            self.assertEqual(verdict, "reproduced: " + facts["op"])
            self.assertIn("outputs of the layer: %d NaN" % bad, self.output)  # as many as in the run
            first = next(line for line in self.output.splitlines() if line.endswith(" <- makes them"))
            self.assertRegex(first, "^%s: inputs finite, at most .*; outputs .*(NaN|infinite)" % facts["op"])

    @on_cpus
    @for_families("graph", "sampled_graph", "many_graphs")
    def test_a_layer_is_saved_with_the_graph_that_it_reads(self, family, *overrides):
        folder, facts = self.saved_layer(family, *overrides, ranks=1 if family == "graph" else 2)
        header, values = read_safetensors(self.path(folder, "layer.safetensors"))
        self.assertEqual(values("context.graph_offsets", "<i8")[-1], header["context.graph_neighbors"]["shape"][0])
        self.assertEqual(facts["sources"], header["input.residual"]["shape"][0])
        self.assertEqual(self.replay(folder, ranks=1, expect=5), "reproduced: " + facts["op"])
        output = facts["tensors"]["output.residual"], facts["tensors"].get("output.branch", {"nan": 0, "infinite": 0})
        counts = [sum(tensor[kind] for tensor in output) for kind in ("nan", "infinite")]
        words = "".join("%d %s, " % (count, word) for count, word in zip(counts, ("NaN", "infinite")) if count > 0)
        self.assertIn("outputs of the layer: %sothers at most " % words, self.output)
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            json.dump({**facts, "sources": 1}, file)
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("cannot be run: ", self.errors)

    @on_cpus
    def test_a_layer_is_saved_with_the_documents_that_it_keeps_apart(self):
        folder, facts = self.saved_layer("documents", "data.documents=separate", ranks=1)
        path = self.path(folder, "layer.safetensors")
        header, values = read_safetensors(path)
        offsets, (rows, positions, _) = values("context.document_offsets", "<i4"), header["input.residual"]["shape"]
        self.assertEqual((offsets[0], offsets[-1], header["context.cosine"]["shape"][:2]), (0, rows * positions, [1, rows * positions]))
        self.assertEqual(self.replay(folder, ranks=1, expect=5), "reproduced: " + facts["op"])
        bad = sum(facts["tensors"][tensor]["nan"] for tensor in ("output.residual", "output.branch"))
        self.assertIn("outputs of the layer: %d NaN" % bad, self.output)
        with open(path, "rb") as file:
            data = file.read().replace(offsets.tobytes(), numpy.maximum(offsets, 1).tobytes(), 1)
        with open(path, "wb") as file:
            file.write(data)
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            json.dump({**facts, "tensors_sha256": hashlib.sha256(data).hexdigest()}, file)
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("its context.document_offsets do not divide the rows of input.residual into documents", self.errors)

    @on_cpus
    def test_a_layer_is_saved_with_what_its_delayed_scales_follow_from(self):
        """They are those of the run before the step, and the layer alone has them. FP8 saturates, so the overflow is that of the layer that is kept."""
        some = DELAYED.replace("history: 3", "history: 3, keep: [mlp.gate_up]")
        folder, facts = self.saved_layer("delayed", some, "checkpoint={every: 1, keep: 20}", ranks=1)
        self.assertEqual(self.replay(folder, ranks=1, expect=5), "reproduced: " + facts["op"])
        bad = sum(facts["tensors"][tensor]["nan"] for tensor in ("output.residual", "output.branch"))
        self.assertIn("outputs of the layer: %d NaN" % bad, self.output)
        path = self.path(folder, "layer.safetensors")
        header, values = read_safetensors(path)
        checkpoint = self.path("delayed", "checkpoints/step-%08d/rank-00000.safetensors" % (facts["step"] - 1))
        _, of_run = read_safetensors(checkpoint)
        modules = sorted(name for name in header if name.startswith("amax."))
        self.assertEqual(modules, ["amax.blocks.0." + name for name in ("attention.output", "attention.qkv", "mlp.down")])
        for name in modules:
            history = of_run(name[len("amax."):] + "/amax_history", "<f4").reshape(3, -1)
            numpy.testing.assert_array_equal(values(name, "<f4"), history.max(axis=1), name)
        said = self.output
        with open(path, "rb") as file:
            data = bytearray(file.read())
        start = 8 + int.from_bytes(data[:8], "little")
        for name in modules:
            begin, end = (start + offset for offset in header[name]["data_offsets"])
            data[begin:end] = (values(name, "<f4") / 2).tobytes()
        with open(path, "wb") as file:
            file.write(data)
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            json.dump({**facts, "tensors_sha256": hashlib.sha256(data).hexdigest()}, file)
        self.replay(folder, ranks=1, expect=5)
        self.assertNotEqual(self.output, said)

    @on_cpus
    def test_casts_and_recomputation_are_those_of_the_run(self):
        for name, override in (("bfloat16", "precision={compute: bfloat16}"), ("full", "gradient_checkpointing=full"),
                               ("selective", "gradient_checkpointing=selective"), ("two_micro_batches", "batch=32")):
            folder, facts = self.saved_layer(name, override, ranks=1)
            self.assertEqual(facts["tensors"]["weight.blocks.0.norm1.weight"]["dtype"], "BF16" if name == "bfloat16" else "F32")
            self.assertEqual(self.replay(folder, ranks=1, expect=5), "reproduced: " + facts["op"])
            bad = sum(facts["tensors"][tensor]["nan"] for tensor in ("output.residual", "output.branch"))
            self.assertIn("outputs of the layer: %d NaN" % bad, self.output)

    @on_cpus
    def test_a_layer_that_is_finite_alone_is_not_reproduced(self):
        folder, facts = self.saved_layer("small", ranks=1)
        path = self.path(folder, "layer.safetensors")
        header, _ = read_safetensors(path)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in header.items():
            if name.startswith("weight."):
                begin, end = (start + offset for offset in entry["data_offsets"])
                data[begin:end] = (numpy.frombuffer(data[begin:end], "<f4") * numpy.float32(1e-15)).tobytes()
        with open(path, "wb") as file:
            file.write(data)
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("layer.safetensors: its SHA-256 is not the one in nonfinite.json", self.errors)
        facts["tensors_sha256"] = hashlib.sha256(data).hexdigest()
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            json.dump(facts, file)
        self.assertEqual(self.replay(folder, ranks=1), "not reproduced: the output is finite")

    @on_cpus
    def test_saved_layers_that_cannot_be_read(self):
        folder, facts = self.saved_layer("damaged", ranks=1)
        self.replay(folder, "--step", "2", ranks=1, expect=2)
        self.assertIn("is a saved layer, which is run as it is", self.errors)
        for change, problem in (({"direction": "sideways"}, "direction is 'sideways'"), ({"layer": -1}, "layer is missing, or no whole number"),
                                ({"gradient_type": "F7"}, "gradient_type is 'F7'"), ({"gradient_type": "I64"}, "gradient_type is 'I64'"),
                                ({"layer": 7}, "it is of layer 7, the model has 3"), ({"name": "blocks.1"}, "layer 0 is blocks.0, not blocks.1")):
            with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
                json.dump({**facts, **change}, file)
            self.replay(folder, ranks=1, expect=4)
            self.assertIn(problem, self.errors)
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("nonfinite.json: not what a replay has saved: no JSON object", self.errors)
        # A file with the right hash, and an input whose last two dimensions are exchanged.
        path = self.path(folder, "layer.safetensors")
        entry = read_safetensors(path)[0]["input.residual"]
        rows, positions, width = entry["shape"]
        turned = {**entry, "shape": [rows, width, positions]}
        with open(path, "rb") as file:
            data = file.read().replace(*(json.dumps(shape, separators=(",", ":")).encode() for shape in (entry, turned)), 1)
        with open(path, "wb") as file:
            file.write(data)
        self.assertEqual(read_safetensors(path)[0]["input.residual"]["shape"], [rows, width, positions])
        with open(self.path(folder, "nonfinite.json"), "w", encoding="utf-8") as file:
            json.dump({**facts, "tensors_sha256": hashlib.sha256(data).hexdigest()}, file)
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("cannot be run: ", self.errors)
        os.remove(path)
        self.replay(folder, ranks=1, expect=4)
        self.assertIn("layer.safetensors", self.errors)

    @on_cpus
    @for_families("graph")
    def test_a_layer_that_needs_other_ranks_is_named_and_not_saved(self, family, *overrides):
        step = self.diverged(family, *overrides, ranks=2)
        said = self.replay(family, "--at-nonfinite", expect=5)
        self.assertEqual(said, "nothing was saved: the graph is split over the ranks, and the layer exchanges rows with them")
        place = r"step %d, rank \d, micro-batch 0, layer \d \(layers\.\d\), forward: forward aten::" % step
        self.assertRegex(self.output, "the first value that is not finite: " + place)
        self.assertFalse(os.path.exists(self.path(family, "nonfinite-step-%d" % step)))

    @on_cpus
    def test_what_no_layer_made_is_said(self):
        self.train("injected", *SHORT, "fault={at: step 3 rank 1, kind: nan}", environment=FAULTS, expect=5)
        said = self.replay("injected", "--at-nonfinite", expect=5, environment=FAULTS)
        self.assertEqual(said, "nothing was saved: only a layer can be saved and run alone")
        self.assertRegex(self.output, "step 3, rank 1, micro-batch 0, outside of the layers, gradient of .*: no op of LibTorch made it\n")
        self.assertRegex(self.replay("injected", "--at-nonfinite", "fault={kind: none}"), "^finite: every output of a layer and every gradient of step 3 ")

    @on_cpus
    def test_what_loss_scaling_skips_does_not_count(self):
        """Some of the first steps overflow. A loss among them that is not finite is found all the same."""
        scaled = [*SHORT, "precision={compute: float16, loss_scaling: {initial: 1e7}}"]
        self.train("scaled", *scaled)
        with open(self.path("scaled", "metrics.jsonl"), encoding="utf-8") as file:
            skipped = [line["step"] for line in map(json.loads, file) if line.get("skipped")]
        self.assertGreater(len(skipped), 0)
        self.replay("scaled", "--at-nonfinite", expect=4)
        self.assertIn("not finite, except %d that loss scaling skipped; --step names one of them" % len(skipped), self.errors)
        self.replay("scaled", "--at-nonfinite", "--step", str(skipped[0]), expect=5)
        why = ", because it took gradients that are not finite for an overflow: usually no layer is at fault\n"
        self.assertIn("loss scaling skipped step %d" % skipped[0] + why, self.output)
        self.assertRegex(self.replay("scaled", "--step", "12", "--from", "0"), "^equal: .* bit for bit$")
        fault = "fault={at: step 1 rank 1, kind: nan_loss}"
        self.train("both", *scaled, "run.on_nonfinite=skip", fault, environment=FAULTS)
        self.replay("both", "--at-nonfinite", expect=5, environment=FAULTS)
        self.assertIn("replays step 1 to 1 and looks at the last one", self.output)
        self.assertNotIn("loss scaling", self.output)

    @on_cpus
    def test_wrong_use_of_at_nonfinite(self):
        self.train("fine", *SHORT)
        self.replay("fine", "--at-nonfinite", expect=4)
        self.assertIn("has no step whose loss or gradient norm is not finite", self.errors)
        self.replay("fine", "--at-nonfinite", "--locate", "--step", "3", expect=2)
        self.assertIn("exclude each other", self.errors)
        self.replay("fine", "--at-nonfinite", "--step", "13", expect=4)

    @on_cpus
    def test_a_fault_of_another_step_is_refused(self):
        self.train("other", "steps=4", "evaluation.every=0", "fault={at: step 2 rank 0 layer 0, kind: flip_gradient}", environment=FAULTS)
        self.replay("other", "--step", "4", "--locate", expect=2, environment=FAULTS)
        self.assertIn("fault.at names step 2", self.errors)
        self.replay("other", "--step", "2", "--locate", expect=2)
        self.assertIn("STRATA_FAULTS=1 is not in the environment", self.errors)
        self.train("layer", "steps=4", "fault={at: step 2 rank 0 layer 3, kind: flip_weight}", environment=FAULTS, expect=2)
        self.assertIn("with a layer below 3", self.errors)


if __name__ == "__main__":
    unittest.main()
