# SPDX-License-Identifier: MIT
"""Checks promises against sums by hand: parts of a step, hours, ranks that are not there, what is missing, and damaged files."""
import contextlib
import copy
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path[:0] = [os.path.join("tools", "promise"), "tools"]

import output  # noqa: E402
import promise as command  # noqa: E402
from bad_input import BadInput  # noqa: E402
from links import Links  # noqa: E402
from machine_file import MachineFile  # noqa: E402
from made_up_times import ADAMW, FACTS, LINEAR, MACHINE, ROWS, ROWS_OF_TWO, TIMES, TWO  # noqa: E402
from run_cost import Promise  # noqa: E402
from short_runs import ops_hash, short_runs, spans_of  # noqa: E402

# As call_times --measure appends them.
MEASURED = {**FACTS, "measured_ranks": 1, "measured_threads": 2}
OP_LINES = [{name: value for name, value in row.items() if name not in ("kind", "ranks", "threads")} for row in ROWS[:2]]


class PromiseTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "times.jsonl")

    def file(self, rows):
        file = MachineFile(self.path, MACHINE)
        for row in rows:
            file.add(copy.deepcopy(row))
        return file

    def promise(self, facts=None, rows=None, network=None):
        return Promise(FACTS if facts is None else facts, self.file(ROWS if rows is None else rows), network)

    def test_a_step_is_the_sum_of_its_parts(self):
        promise = self.promise()
        expected = {"forward ops": (12, 24, 48), "backward ops": (120, 240, 480), "recomputation": (8, 16, 32), "between ops": (3, 3, 3),
                    "optimizer": (0.5, 1, 1.5), "exposed communication": (0, 0, 0), "data": (7, 7, 7)}  # fmt: skip
        for name, times in expected.items():
            for place in range(3):
                self.assertAlmostEqual(promise.parts[name][place], times[place], msg=name)
        self.assertAlmostEqual(promise.step[1], 24 + 240 + 16 + 3 + 1 + 7)
        self.assertAlmostEqual(output.rates(promise)[1], 1000 / 291)
        self.assertAlmostEqual(output.rates(promise)[0], 1000 / promise.step[2])
        self.assertEqual((promise.missing, promise.extrapolated), ({}, []))

    def test_a_run_has_evaluations_and_checkpoints(self):
        promise = self.promise()
        # After steps 40 and 80: 3 rounds of 8 for 20 samples; after the last one 8 rounds. A round has three calls and what is between.
        self.assertAlmostEqual(promise.evaluations[1], (2 * 3 + 8) * 3 * (2 + 0.5))
        # After steps 30, 60, 90 and the last: four copies, and at least one write.
        self.assertAlmostEqual(promise.checkpoints[1], 4 * 1000 * 0.002 + 1000 * 0.02)
        self.assertAlmostEqual(promise.checkpoints[2], 4 * 1000 * (0.003 + 0.03))
        self.assertAlmostEqual(promise.run[1], 100 * 291 + promise.evaluations[1] + promise.checkpoints[1])
        self.assertAlmostEqual(output.as_json(promise)["hours"][1], promise.run[1] / 3600)

    def test_what_was_not_measured_is_named_and_has_no_number(self):
        for left_out, part, words in ((0, "backward ops", "linear 8x8->8 (aten, Float): not measured"),
                                      (1, "optimizer", "adamw 64 (aten, Float): not measured"),
                                      (2, "between ops", "no step of a model with these ops and collectives was measured")):  # fmt: skip
            promise = self.promise(rows=[row for place, row in enumerate(ROWS) if place != left_out])
            self.assertIsNone(promise.parts[part])
            self.assertIn(words, promise.missing[part])
            self.assertIsNone(promise.step)
            self.assertIsNone(promise.run)
            said = "\n".join(output.lines(promise))
            self.assertRegex(said, rf"  {part} +not measured")
            self.assertIn("  a step                   not promised", said)
            self.assertIsNone(output.as_json(promise)["step_seconds"])
        promise = self.promise(rows=ROWS[:3])
        self.assertIsNotNone(promise.step)
        self.assertIsNone(promise.run)
        self.assertIn("checkpoints", promise.missing)
        promise = self.promise({**FACTS, "final_samples": None})
        self.assertIsNone(promise.evaluations)
        self.assertIn("evaluations", promise.missing)

    def test_an_op_that_did_not_agree_says_why(self):
        rows = [{"kind": "op", **TIMES, **LINEAR, "not_timed": "result 0 is\nwrong"}, *ROWS[1:]]
        self.assertIn("linear 8x8->8 (aten, Float): not timed, because result 0 is wrong", self.promise(rows=rows).missing["forward ops"])

    def test_other_ops_are_not_those_of_the_steps_that_were_measured(self):
        facts = {**FACTS, "ops": [*FACTS["ops"], {**LINEAR, "shape": "9x9->9", "part": "forward", "calls": 1}]}
        rows = [*ROWS, {**ROWS[0], "shape": "9x9->9"}]
        self.assertIsNone(self.promise(facts, rows).parts["between ops"])
        for other in ({"settings": "cuda_graph=off"}, {"ops_without_times": ["linear layers in fp8"]}):
            self.assertIn("no step of a model with these ops", self.promise({**FACTS, **other}).missing["between ops"][0])

    def test_products_in_fp8_are_counted_as_others_and_the_rest_is_between_ops(self):
        facts = {**FACTS, "ops_without_times": ["linear layers in fp8"]}
        rows = [*ROWS[:2], {**ROWS[2], "ops": ops_hash(facts), "forward": [-3, -3, -3]}, ROWS[3]]
        promise = self.promise(facts, rows)
        self.assertAlmostEqual(promise.parts["between ops"][1], -3 * (1 + 2 / 3) - 7)
        self.assertIn("linear layers in fp8: their products are counted as those in precision.compute", "\n".join(output.lines(promise)))

    def test_a_step_of_more_layers_and_micro_batches_is_on_the_line_of_the_short_ones(self):
        """Each phase is a + b L + M (c + d L), of which the rows tell four values."""
        def value(layers, micro_batches, scale=1.0):
            return scale * (0.3 + 0.1 * layers + micro_batches * (2 + 0.7 * layers))

        scales = {"forward": 1, "backward": 2, "optimizer": 0.5, "data": 0.25}
        rows = [{**ROWS[2], "layers": layers, "micro_batches": micro_batches, **{name: [value(layers, micro_batches, scale)] * 3 for name, scale in scales.items()}}
                for layers in (3, 6) for micro_batches in (1, 2)]  # fmt: skip
        for layers, micro_batches in ((3, 2), (6, 1), (12, 5), (40, 64)):
            facts = {**FACTS, "layers": layers, "micro_batches": micro_batches}
            promise = self.promise(facts, [*ROWS[:2], *rows, ROWS[3]])
            whole = value(layers, micro_batches)
            self.assertAlmostEqual(promise.parts["between ops"][1], whole * (1 + 2 / 3) + 2 * whole + 0.5 * whole)
            self.assertAlmostEqual(promise.parts["data"][1], 0.25 * whole)
        # The evaluations have a forward of one micro-batch between their three calls.
        self.assertAlmostEqual(promise.evaluations[1], (2 * 3 + 8) * (3 * 2 + value(40, 1)))
        # If a short run is missing, the others tell a line through the layers of one micro-batch.
        promise = self.promise({**FACTS, "layers": 12, "micro_batches": 2}, [*ROWS[:2], *rows[:3], ROWS[3]])
        self.assertAlmostEqual(promise.parts["between ops"][1], value(12, 1) * (2 * (1 + 2 / 3 + 2) + 0.5))
        # One number of layers, or of micro-batches, tells no line: what is in passes grows with it, and an update comes once.
        promise = self.promise({**FACTS, "layers": 6, "micro_batches": 4}, [*ROWS[:2], rows[0], ROWS[3]])
        self.assertAlmostEqual(promise.parts["between ops"][1], value(3, 1) * 8 * (1 + 2 / 3 + 2) + value(3, 1) * 2 * 0.5)

    def test_communication_is_exposed_as_in_measured_steps(self):
        promise = self.promise(TWO, ROWS_OF_TWO)
        # Half of 10 gathers of 8 s and of one all-reduce of 12 bytes, which takes 1.5 s.
        self.assertAlmostEqual(promise.parts["exposed communication"][1], 0.5 * (10 * 8 + 1.5))
        self.assertEqual(promise.extrapolated, [])
        for rows, words in ((ROWS_OF_TWO[:4], "all_gather was not measured"), (ROWS, "no step of several ranks")):
            promise = self.promise(TWO, rows)
            self.assertIsNone(promise.parts["exposed communication"])
            self.assertIn(words, " ".join(promise.missing["exposed communication"]))

    def test_communication_of_ranks_that_are_not_there_is_at_least_what_is_longer_than_the_computation(self):
        """It is least if it is short and the computation long. The exposed share of measured ranks has it already."""
        rows = [{**row, "exchange": "forward all_gather", "exposed": [4] * 3, "sent": [400] * 3} if "exchange" in row else row for row in ROWS_OF_TWO]
        long = {**TWO, "micro_batches": 1, "layers": 2, "collectives": [{**TWO["collectives"][0], "calls": 40}]}
        rows = [{**row, "micro_batches": 1} if "exchange" in row else row for row in rows]
        self.assertAlmostEqual(self.promise(long, rows).parts["exposed communication"][1], 0.01 * 40 * 8)
        promise = self.promise(long, rows, network=(1e-9, 16.0))
        overlapped = [promise.parts[name] for name in ("forward ops", "backward ops", "recomputation", "between ops")]
        computation = [sum(times[place] for times in overlapped) for place in range(3)]
        whole = [promise.links.seconds("all_gather", 64, 2)[place] * 40 for place in range(3)]
        self.assertGreater(whole[1], computation[1])
        for place in range(3):
            expected = max(0.01 * whole[place], whole[place] - computation[2 - place])
            self.assertAlmostEqual(promise.parts["exposed communication"][place], expected)

    def test_bounds_do_not_fall(self):
        for ranks in (2, 3, 5, 64):
            rows = [{"operation": "all_gather", "bytes": size, "seconds": times} for size, times in ((8, [1, 1, 50]), (800, [60, 61, 62]))]
            links = Links(rows, 4, network=(20.0, 1e3))
            times = links.seconds("all_gather", 700, ranks)
            self.assertEqual(times, sorted(times))

    def test_the_steps_of_another_sharding_tell_nothing_of_this_one(self):
        replicated = {**TWO, "collectives": [{**TWO["collectives"][1], "part": "backward"}, TWO["collectives"][1]]}
        promise = self.promise(replicated, ROWS_OF_TWO)
        self.assertIsNone(promise.parts["exposed communication"])
        self.assertIn("no step of a model with these ops and collectives was measured", promise.missing["between ops"])
        hybrid = {**TWO, "ranks": 4, "collectives": [*TWO["collectives"], {**TWO["collectives"][1], "part": "backward"}]}
        self.assertIsNotNone(self.promise(hybrid, ROWS_OF_TWO).step)

    def test_times_of_other_threads_are_not_taken(self):
        thread_rows = [{**row, "threads": threads, "forward": [threads] * 3} if row["kind"] == "op" else {**row, "threads": threads}
                      for threads in (4, 5) for row in ROWS]  # fmt: skip
        self.assertEqual(self.promise({**FACTS, "threads_of_ranks": [4]}, thread_rows).threads, 4)
        self.assertEqual(self.promise({**FACTS, "threads_of_ranks": [5]}, thread_rows).threads, 5)
        self.assertIsNone(self.promise({**FACTS, "threads_of_ranks": [6]}, thread_rows).step)
        two = [{**row, "ranks": 2, "threads": 2} for row in thread_rows] + thread_rows  # two ranks of four cores, or one
        self.assertEqual((self.promise({**TWO, "threads_of_ranks": [4, 2]}, two).ranks, self.promise({**TWO, "threads_of_ranks": [4, 1]}, two).ranks), (2, 1))

    def test_checkpoints_have_the_storage_of_their_ranks_which_share_a_disk(self):
        rows = [{"kind": "storage", "ranks": 1, "threads": 1, "copy": [5, 5, 5], "write": [5, 5, 5]}, *ROWS_OF_TWO]
        self.assertAlmostEqual(self.promise(TWO, rows).checkpoints[1], 4 * 1000 * 0.002 + 2 * 1000 * 0.02)
        self.assertAlmostEqual(self.promise({**TWO, "saving_ranks": 1}, rows).checkpoints[1], 4 * 1000 * 0.002 + 1000 * 0.02)

    def test_a_step_that_takes_no_time_is_not_promised(self):
        times = ("forward", "backward", "optimizer", "data")
        for rows in ([{**row, **{name: [0, 0, 0] for name in times if row.get(name)}} for row in ROWS],
                     [ROWS[0], ROWS[1], {**ROWS[2], "forward": [-500] * 3}, ROWS[3]]):  # fmt: skip
            promise = self.promise(rows=rows)
            self.assertIn("not above 0", promise.missing["a step"][0])
            self.assertIn("  a step                   not promised", "\n".join(output.lines(promise)))
            self.assertEqual((promise.run, output.as_json(promise)["tokens_per_second"]), (None, None))
            self.assertGreaterEqual(promise.evaluations[0], 0)
        promise = self.promise(rows=[ROWS[0], ROWS[1], {**ROWS[2], "forward": [-120] * 3}, ROWS[3]])
        self.assertEqual((promise.step[0], promise.missing), (0, {}))
        self.assertGreater(promise.step[1], 0)
        self.assertIsNone(output.as_json(promise)["tokens_per_second"][2])
        self.assertRegex("\n".join(output.lines(promise)), r"tokens a second .* to inf\)")

    def test_measure_is_advised_only_if_it_helps(self):
        for facts, advised in (({**FACTS, "final_samples": None}, False), ({**FACTS, "threads_of_ranks": [3]}, True)):  # fmt: skip
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                output.say(self.promise(facts))
            self.assertEqual("tools/strata measure CONFIG" in said.getvalue(), advised, said.getvalue())

    def test_ranks_that_are_not_there_are_said_to_be_extrapolated(self):
        many = {**TWO, "ranks": 64, "threads_of_ranks": [2] * 64, "collectives": [{**call, "ranks": 64} for call in TWO["collectives"]]}
        promise = self.promise(many, ROWS_OF_TWO)
        self.assertIn("64 ranks from 2 measured", promise.extrapolated[0])
        self.assertIn("extrapolated: 64 ranks from 2 measured", "\n".join(output.lines(promise)))
        self.assertEqual(output.as_json(promise)["measured_ranks"], 2)
        slow = self.promise(many, ROWS_OF_TWO, network=(3.0, 4.0))
        self.assertGreater(slow.parts["exposed communication"][1], promise.parts["exposed communication"][1])
        self.assertIn("a link at best", slow.extrapolated[0])
        # Two ranks on two hosts are not the two of this machine.
        apart = self.promise(TWO, ROWS_OF_TWO, network=(3.0, 4.0))
        self.assertAlmostEqual(apart.parts["exposed communication"][1], 0.5 * (10 * (3 + 32 / 4) + 2 * 3 + 12 / 4))
        self.assertIn("2 ranks from 2 measured", apart.extrapolated[0])

    def test_a_ring_has_a_latency_and_a_bandwidth(self):
        latency, pace = 0.5, 0.25  # of a link: an all-gather of B bytes on n ranks takes (n - 1) (latency + pace B / n)
        def ring(size, ranks, rounds=1):
            return rounds * (ranks - 1) * (latency + pace * size / ranks)

        rows = [{"operation": operation, "bytes": size, "seconds": [ring(size, 2, rounds)] * 3}
                for operation, rounds in (("all_gather", 1), ("all_reduce", 2)) for size in (1e-9, 1000, 1e6)]  # fmt: skip
        links = Links(rows, 2)
        for operation, rounds in (("all_gather", 1), ("all_reduce", 2)):
            for ranks in (2, 3, 64, 4096):
                for size in (500, 1000, 3e5):
                    self.assertAlmostEqual(links.seconds(operation, size, ranks)[1] / ring(size, ranks, rounds), 1, places=6)
        self.assertTrue(links.has("all_reduce_max"))
        self.assertEqual(links.seconds("all_reduce_max", 96, 3), links.seconds("all_reduce", 96, 3))

    def test_the_file_is_the_same_after_it_was_written(self):
        self.file(ROWS_OF_TWO).write()
        self.assertEqual(list(MachineFile(self.path, MACHINE).rows.values()), ROWS_OF_TWO)

    def test_the_file_of_another_machine_is_refused(self):
        self.file(ROWS).write()
        for name, value in (("device", "Another"), ("torch", "2.12.0"), ("kernels", "4567")):
            with self.assertRaisesRegex(BadInput, f"was measured with {name} .*, this is {value}"):
                MachineFile(self.path, {**MACHINE, name: value})

    def test_damaged_files_are_refused_in_a_sentence(self):
        head = json.dumps({"version": 4, **MACHINE})
        row = ROWS[0]
        damaged = [
            "[" * 100000, "{", "null", "[]", '{"kind": "op", "kind": "op"}', json.dumps({**row, "kind": "other"}), json.dumps({**row, "kind": []}),
            json.dumps({**row, "kind": {}}), json.dumps({**row, "ranks": -1}), json.dumps({**row, "ranks": True}), json.dumps({**row, "ranks": 1e3}),
            json.dumps({**row, "shape": 3}), json.dumps({**row, "input_gradient": "no"}), json.dumps({**row, "forward": [1, 2]}),
            json.dumps({**row, "forward": [3, 2, 1]}), json.dumps({**row, "forward": [-1, 2, 3]}), json.dumps({**row, "forward": [1, 2, 1e300]}),
            json.dumps({**row, "forward": [1, 2, float("nan")]}), json.dumps({**row, "forward": [1, 2, float("inf")]}),
            json.dumps({**row, "forward": ["1", "2", "3"]}), json.dumps({**row, "not_timed": 3}), json.dumps({**row, "forward": None}),
            json.dumps({**ROWS[2], "data": None}), json.dumps({**ROWS[2], "layers": 0}), json.dumps({**ROWS[2], "micro_batches": "1"}), json.dumps({**ROWS[2], "forward": None}), json.dumps({**ROWS[2], "exchange": None}),
            json.dumps({**ROWS_OF_TWO[-1], "ranks": 1}),
            json.dumps({**ROWS_OF_TWO[-1], "seconds": None, "not_timed": "x"}), json.dumps({**ROWS[3], "write": None, "not_timed": "x"}),
            '{"kind": "op", "ranks": ' + "9" * 5000 + "}",
        ]  # fmt: skip
        for line in damaged:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(f"{head}\n{line}\n")
            with self.assertRaisesRegex(BadInput, "times.jsonl:2: ", msg=line[:80]) as caught:
                MachineFile(self.path, MACHINE)
            self.assertLess(len(str(caught.exception)), 600)
        for text, words in (("", "is empty"), ('{"version": 1}\n', "has version 1, expected 4")):
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(BadInput, words):
                MachineFile(self.path, MACHINE)

    def test_a_pipe_is_not_waited_for(self):
        os.mkfifo(self.path)
        with self.assertRaisesRegex(BadInput, "is no file"):
            MachineFile(self.path, MACHINE)

    def test_a_disk_that_is_full_keeps_the_file_and_nothing_else(self):
        self.file(ROWS).write()
        with unittest.mock.patch("machine_file.os.replace", side_effect=OSError(28, "No space left on device")), self.assertRaises(OSError):
            self.file(ROWS[:1]).write()
        self.assertEqual(os.listdir(self.folder), ["times.jsonl"])
        self.assertEqual(len(MachineFile(self.path, MACHINE).rows), len(ROWS))

    def test_names_in_files_cannot_write_to_a_terminal(self):
        rows = [{"kind": "op", **TIMES, **LINEAR, "not_timed": "\x1b[2J"}, *ROWS[1:]]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            output.say(self.promise(rows=rows))
        self.assertNotIn("\x1b", said.getvalue())

    def test_short_runs_have_few_layers_and_micro_batches_and_the_ranks_of_this_machine(self):
        facts = {**FACTS, "layers": 30, "ranks": 64, "samples_per_round": 512}
        self.assertEqual(short_runs(facts, 2), [["run.ranks=2", f"model.layers={layers}", f"batch={batch}"] for layers in (3, 6) for batch in (16, 32)])
        self.assertEqual(short_runs({**FACTS, "layers": 4, "micro_batches": 1}, 1),
                         [["run.ranks=1", "model.layers=3", "batch=8"], ["run.ranks=1", "batch=8"]])
        self.assertEqual(short_runs({**FACTS, "samples_per_round": 1, "micro_batches": 1}, 1), [["run.ranks=1"]])

    def recorded(self, lines, short, steps):
        """What record writes of these lines."""
        paths = {name: os.path.join(self.folder, name) for name in ("lines", "short", "steps")}
        for name, content in (("lines", lines), ("short", short), ("steps", steps)):
            with open(paths[name], "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in content)
        words = ["record", *(word for name, path in paths.items() for word in (f"--{name}", path)), "--times", self.path, "--settings", "cuda_graph=auto"]
        smaller_file = unittest.mock.patch.object(command, "WRITTEN", 1 << 20)  # a disk that is busy takes seconds for the real one
        with contextlib.redirect_stdout(io.StringIO()), smaller_file, unittest.mock.patch.object(sys, "argv", ["promise", *words]):
            command.main()
        return MachineFile(self.path, MACHINE)

    def test_what_is_between_ops_is_the_rest_of_a_step(self):
        """A step that is recorded is promised exactly, whatever its ops were measured to take, and its recomputation too."""
        slower = [{**line, "forward": [3 * time for time in line["forward"]]} for line in OP_LINES]
        breakdown = {"forward": 30, "backward": 60, "optimizer": 5, "other": 3, "exposed_communication": 0, "idle": 2, "step": 100}
        steps = [{"milliseconds": 1e3 * time, "breakdown": breakdown} for time in (390, 410)]
        file = self.recorded([MEASURED, *OP_LINES, MEASURED, *slower], [FACTS, FACTS], steps)
        self.assertEqual(file.rows[("op", 1, 2, *(LINEAR.values()))]["forward"], [2, 4, 8])
        promise = Promise(FACTS, file)
        self.assertAlmostEqual(promise.step[1], 400)
        said = "\n".join(output.lines(promise))
        self.assertRegex(said, r"  a step +4e\+05 ms")
        # Without recomputation two of three forwards are left out, with what is between their ops.
        without = Promise({**FACTS, "ops": [op for op in FACTS["ops"] if op["part"] != "recomputation"]}, file)
        self.assertAlmostEqual(without.step[1], 400 - 2 / 3 * 400 * 0.3 * (1 + 2 / 90))

    def test_energy_is_the_time_at_the_power_of_the_longest_short_step(self):
        breakdown = {"forward": 30, "backward": 60, "optimizer": 5, "other": 3, "exposed_communication": 0, "idle": 2, "step": 100}
        shorter = {**FACTS, "micro_batches": 2}
        steps = [{"milliseconds": 2e5, "watts": 100.0, "breakdown": breakdown}, {"milliseconds": 4e5, "watts": 500.0, "breakdown": breakdown}]
        file = self.recorded([MEASURED, *OP_LINES], [shorter, FACTS], steps)
        self.assertEqual(MachineFile(self.path, MACHINE).rows, file.rows)
        promise = Promise(FACTS, file)
        self.assertAlmostEqual(promise.watts, 500)
        self.assertAlmostEqual(output.as_json(promise)["step_joules"][1], 500 * promise.step[1])
        self.assertAlmostEqual(output.as_json(promise)["joules"][1], 500 * promise.run[1])
        self.assertRegex("\n".join(output.lines(promise)), r"  energy of a step +2e\+05 J")
        self.assertAlmostEqual(Promise({**FACTS, "ranks": 4}, file).watts, 2000)  # as much for each GPU that is not there
        without = self.promise()
        self.assertIsNone(output.as_json(without)["step_joules"])
        self.assertRegex("\n".join(output.lines(without)), r"  energy of a step +not measured")

    def test_a_profile_that_cannot_tell_phases_apart_has_the_step_all_the_same(self):
        breakdown = {"forward": 1, "backward": 2, "optimizer": 0, "other": 97, "exposed_communication": 0, "idle": 0, "step": 100}
        file = self.recorded([MEASURED, *OP_LINES], [FACTS], [{"milliseconds": 4e5, "breakdown": {**breakdown, "difference": "a kernel more"}}])
        promise = Promise(FACTS, file)
        self.assertAlmostEqual(promise.step[1], 400)
        self.assertAlmostEqual(promise.parts["between ops"][1], 400 - 24 - 240 - 16 - 1)
        self.assertEqual(promise.parts["data"][1], 0)
        self.assertIsNone(spans_of({"milliseconds": 1e3, "breakdown": None}))

    def test_exposed_communication_is_recorded_beside_all_of_it(self):
        measured = {**TWO, "measured_ranks": 2, "measured_threads": 2}
        lines = [{name: value for name, value in row.items() if name not in ("kind", "ranks", "threads")}
                 for row in ROWS_OF_TWO if row["kind"] in ("op", "collective")]  # fmt: skip
        breakdown = {"forward": 30, "backward": 60, "optimizer": 5, "other": 3, "exposed_communication": 2, "idle": 0, "step": 100}
        file = self.recorded([measured, *lines], [TWO], [{"milliseconds": 1e6, "breakdown": breakdown}])
        row = next(row for row in file.rows.values() if row["kind"] == "outside")
        self.assertEqual((row["exposed"], row["sent"]), ([20.0] * 3, [81.5] * 3))
        promise = Promise(TWO, file)
        self.assertAlmostEqual(promise.parts["exposed communication"][1], 20)
        self.assertAlmostEqual(promise.step[1], 1000)

    def test_the_norm_of_all_gradients_counts_to_what_is_between_ops(self):
        norm = {**ADAMW, "op": "sum_of_squares", "part": "optimizer", "calls": 1}
        for shape in ("64", "4096"):  # another number of layers has another norm
            facts = {**FACTS, "ops": [*FACTS["ops"], {**norm, "shape": shape}]}
            self.assertEqual(self.promise(facts).missing, {})


if __name__ == "__main__":
    unittest.main()
