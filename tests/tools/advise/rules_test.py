# SPDX-License-Identifier: MIT
"""Each rule fires on its defect with the predicted gain, is silent without it, and a mutant of a rule is noticed."""
import json
import os
import sys
import tempfile
import types
import unittest

TOOLS = os.path.abspath("tools")
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), *(os.path.join(TOOLS, name) for name in ("advise", "report", ""))]

from advice import Advice, ranked  # noqa: E402
from bad_input import BadInput  # noqa: E402
from cases import CASES, ops  # noqa: E402
from evidence import Evidence  # noqa: E402
from measure import Plan  # noqa: E402
from made_up import CLEAN, FakeMeasure, row, write_run  # noqa: E402
from rules import RULES  # noqa: E402
from run_folder import Run  # noqa: E402
from trials import lines, merged, try_advice  # noqa: E402

MODULES = ("evidence", "rules_of_ops", "rules_of_ranks", "rules_of_runs", "rules_of_steps")
# A line of a module, and what it becomes. The cases must fail with each of them.
MUTANTS = (
    ("evidence", "self.compute / max(self.busy, 1e-6))", "1)"),
    ("evidence", '(step["idle"] if self.on_gpu and', '(step["idle"] if'),
    ("evidence", '(step["idle"] if self.on_gpu and is_finite(step.get("idle")) else 0)', "0"),
    ("evidence", "max(self.compute - self.busy, 0) if self.on_gpu and", 'self.profiled_mean("idle") if self.on_gpu and'),
    ("evidence", "(*self.run.evaluations, *self.saves())]", "self.run.evaluations]"),
    ("evidence", "(*self.run.evaluations, *self.saves())]", "self.saves()]"),
    ("evidence", "quiet or (() if self.profiled else self.plain)", "self.plain"),
    ("evidence", "in steps and self.before(index) not in others]", "in steps]"),
    ("evidence", "return self.run.steps.steps[index] - 1", "return self.run.steps.steps[index]"),
    ("rules_of_ops", 'and "torchscript" not in plan.levels.values()', ""),
    ("rules_of_ops", 'not evidence.captured and evidence.value("cuda_graph") != "off"', "not evidence.captured"),
    ("rules_of_ops", "sum(gains.values()) + waits,", "sum(gains.values()),"),
    ("rules_of_ops", 'plan and evidence.value("kernels.default") == "best":', "plan and False:"),
    ("rules_of_steps", "+ evidence.idle\n", "\n"),
    ("rules_of_steps", "fewer, chosen=True)", "fewer)"),
    ("evidence", "step not in self.profiled_steps", "True"),
    ("evidence", ">= first + STARTING_STEPS]", ">= first]"),
    ("evidence", "return exposed * self.time_of", "return self.time_of"),
    ("evidence", "if value > 0]", "]"),
    ("evidence", "row.level in COMMUNICATION and", "row.level == \"wait\" and"),
    ("rules_of_ops", ">= LEAST_OF_OP:", ">= 0:"),
    ("rules_of_ops", 'if evidence.value("kernels.default") == "best" and not named:', "if named:"),
    ("rules_of_ops", "* (now - then) / now\n", "* (now - then) / then\n"),
    ("rules_of_ops", "head + loss) * (1 - ", "head + loss) * ("),
    ("rules_of_ops", 'any(row.op == "linear_cross_entropy" for row in evidence.ops)', "False"),
    ("evidence", "if self.on_gpu and self.profiled else 0", "if self.profiled else 0"),
    ("rules_of_ops", 'evidence.value("cuda_graph") != "off" or', ""),
    ("rules_of_ops", 'if evidence.on_gpu and now == "float32":', 'if now == "float32":'),
    ("rules_of_ops", 'evidence.integer("model.width") < 2048', 'evidence.integer("model.width") < 0'),
    ("rules_of_ops", "size % 64 == 0", "False"),
    ("rules_of_ops", "0.3 * evidence.compute", "0.1 * evidence.compute"),
    ("rules_of_ops", "computation(evidence) * (1 - after / before)", "computation(evidence) * (after / before)"),
    ("rules_of_ops", "and op in micro_batch_ops", ""),
    ("rules_of_ops", "min(max(planned / 1000, under_ops), computation(evidence))", "under_ops"),
    ("rules_of_ops", "min(max(planned / 1000, under_ops), computation(evidence))", "max(planned / 1000, under_ops)"),
    ("rules_of_ops", "min(max(planned / 1000, under_ops), computation(evidence))", "computation(evidence)"),
    ("rules_of_ops", "max(planned / 1000, under_ops)", "planned / 1000"),
    ("rules_of_steps", "+ each * (1 - fewer / count)", ""),
    ("rules_of_steps", "described.bytes <= limit:", "described.bytes <= limit / 10:"),
    ("rules_of_steps", "- saved[extra] <= limit]", "<= limit]"),
    ("rules_of_steps", "and not row.backward and", "and"),
    ("rules_of_steps", "if row.op in KEPT_OPS", "if row.op not in KEPT_OPS"),
    ("rules_of_steps", "if not measure.fits(extra):", "if False:"),
    ("rules_of_steps", "measure.plan(extra), fewer,", "measure.plan(extra), count,"),
    ("rules_of_steps", "range(1, count) if", "range(count - 1, 0, -1) if"),
    ("rules_of_steps", "if gain < LEAST * evidence.compute:", "if gain < 0:"),
    ("rules_of_steps", "computation(evidence) * (1 - after / before)", "evidence.compute * (1 - after / before)"),
    ("rules_of_runs", "cost / every <= MOST * evidence.compute", "cost <= 0"),
    ("rules_of_runs", "cost / every - cost / new, 0,", "cost - cost / new, 0,"),
    ("rules_of_runs", "cost / every - cost / new, 0,", "cost / every, 0,"),
    ("rules_of_runs", "evidence.save_cost()", "evidence.evaluation_cost()"),
    ("rules_of_runs", "evidence.evaluation_cost()", "evidence.save_cost()"),
    ("rules_of_runs", "if new <= every:", "if False:"),
    ("rules_of_runs", "overhead * share if", "overhead if"),
    ("rules_of_ranks", "or not measure.fits(extra)", ""),
    ("rules_of_ranks", "(1 - min(1, reduced / gathered))", "1"),
    ("rules_of_ranks", 'gathers(evidence, "backward")', "gathers(evidence)"),
    ("rules_of_ranks", "gain -= (max", "gain -= 0 * (max"),
    ("rules_of_ops", "or idle < LEAST * evidence.compute", "or not idle"),
    ("rules_of_ranks", "reductions * (1 - 1 / count)", "reductions"),
    ("rules_of_ranks", "exposed * (layers - 1) / layers", "exposed"),
    ("rules_of_ranks", 'not in ("full", "hybrid")', 'not in ("full", "hybrid", "none")'),
    ("rules_of_ranks", 'evidence.value("sharding.prefetch") != "0" or', ""),
    ("rules_of_ranks", 'evidence.value("sharding.reshard_after_forward") != "true" or', ""),
)  # fmt: skip


def modules_with(mutant=None):
    """Returns the modules by name, with one text replaced."""
    loaded = {}
    for name in MODULES:
        with open(os.path.join(TOOLS, "advise", name + ".py"), encoding="utf-8") as file:
            text = file.read()
        if mutant and mutant[0] == name:
            if mutant[1] not in text:
                raise AssertionError(f"{name} has no {mutant[1]!r}: this mutant must follow the change of the module")
            text = text.replace(mutant[1], mutant[2])
        loaded[name] = types.ModuleType(name)
        exec(compile(text, name, "exec"), loaded[name].__dict__)  # pylint: disable=exec-used
    return loaded


def wrong(modules, case, folder):
    """Returns what is wrong with the advice in a case, or ""."""
    configuration = {**CLEAN, **case.configuration}
    write_run(folder, configuration, **case.run)
    module, _, name = case.rule.partition(".")
    evidence = modules["evidence"].Evidence(Run(folder))
    found = getattr(modules[module], name)(evidence, FakeMeasure(configuration, **case.measure))
    if found is None or case.expected is None:
        return "" if found is case.expected else f"{case.rule}: expected {case.expected}, came {found}"
    override, milliseconds, saved = case.expected
    same_gain = found.milliseconds == milliseconds if None in (milliseconds, found.milliseconds) else abs(found.milliseconds - milliseconds) < 1e-6
    return "" if found.overrides == (override,) and same_gain and found.bytes == saved else f"{case.rule}: expected {case.expected}, came {found}"


def all_wrong(modules, cases=CASES):
    """Yields what is wrong, case by case: the first one suffices for a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        yield from filter(None, (wrong(modules, case, os.path.join(folder, str(number))) for number, case in enumerate(cases)))


class RulesTest(unittest.TestCase):
    def test_each_rule_fires_on_its_defect_and_is_silent_without_it(self):
        self.assertEqual(list(all_wrong(modules_with())), [])

    def test_every_rule_has_a_case_that_fires_and_one_that_is_silent(self):
        for rule in RULES:
            name = f"{rule.__module__}.{rule.__name__}"
            if name == "rules_of_steps.readers" and len(os.sched_getaffinity(0)) == 1:
                continue  # with one core there is no thread to add
            kinds = {case.expected is None for case in CASES if case.rule == name}
            self.assertEqual(kinds, {True, False}, name)

    def test_a_mutant_is_noticed(self):
        for mutant in MUTANTS:
            def noticed(mutant=mutant):
                try:
                    cases = [case for case in CASES if mutant[0] in ("evidence", case.rule.partition(".")[0])]
                    return any(all_wrong(modules_with(mutant), cases))
                except (TypeError, ZeroDivisionError, KeyError, AttributeError):
                    return True
            with self.subTest(mutant=mutant):
                self.assertTrue(noticed())


class DamagedRunTest(unittest.TestCase):
    def test_damaged_lines_of_a_profile_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            write_run(os.path.join(folder, "run"), CLEAN, **ops(row("linear", 60)))
            with open(os.path.join(folder, "run", "profile", "rank-0.jsonl"), "a", encoding="utf-8") as file:
                file.write('{"op": 1}\n[]\n{"forward": 1, "milliseconds": null}\n{"forward": 1, "milliseconds": 1, "step": []}\n{"op": "li')
            evidence = Evidence(Run(os.path.join(folder, "run")))
            self.assertEqual([(time.op, time.milliseconds) for time in evidence.ops], [("linear", 60)])

    def test_dense_steps_do_not_count_where_steps_with_pruned_weights_are_profiled(self):
        """Steps 10 and 11 are profiled as dense ones, 12 to 14 with pruned weights; the next steps are slow, as at a start."""
        def line(step, **more):
            return json.dumps({"step": step, **more}) + "\n"

        def found(last, mutant=None):
            with tempfile.TemporaryDirectory() as folder:
                write_run(os.path.join(folder, "run"), {**CLEAN, "sparsity.from_step": "12"})
                with open(os.path.join(folder, "run", "metrics.jsonl"), "w", encoding="utf-8") as file:
                    for step in range(1, last + 1):
                        whole = 40 if step < 12 else 500 if step < 17 else 79.5 + step
                        file.write(line(step, loss=1.0, milliseconds=whole, phases={"forward": whole}))
                with open(os.path.join(folder, "run", "profile", "rank-0.jsonl"), "w", encoding="utf-8") as file:
                    for step in range(10, 15):
                        pruned = step >= 12
                        file.write(line(step, device="cpu", forward=1, milliseconds=200 if pruned else 70, idle=0, pruned=pruned))
                        file.write(line(step, **row("linear", 60 if pruned else 10)))
                made = modules_with(mutant and ("evidence", *mutant))["evidence"].Evidence(Run(os.path.join(folder, "run")))
                return made.compute, [(time.op, time.milliseconds, time.calls) for time in made.ops]

        expected = {24: (100, [("linear", 60, 1)]), 16: (500, [("linear", 120, 1)])}
        for last, mutants in ((24, (("if self.pruned else whole", "if False else whole"), (">= first + STARTING_STEPS]", ">= first]"))),
                              (16, (("step >= first and ", ""),))):
            self.assertEqual(found(last), expected[last])
            for mutant in mutants:
                self.assertNotEqual(found(last, mutant), expected[last], mutant)

    def test_the_level_of_an_op_is_that_of_the_key_that_covers_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("levels: {activation: triton, linear: cuda}\nmeasured:\n"
                           "  - {op: swiglu, key: activation, shape: 4x8, level: aten, uses: 1, forward: 2}\n"
                           "  - {op: linear, shape: 4x8->8, level: aten, uses: 1, forward: 3}\n")  # fmt: skip
            plan = Plan(path)
        self.assertEqual([plan.level_of(op) for op in ("swiglu", "linear", "activation", "rotary")], ["triton", "cuda", "triton", None])

    def test_a_run_without_configuration_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            write_run(os.path.join(folder, "run"), {})
            with self.assertRaisesRegex(BadInput, "has no resolved.yaml with a model"):
                Evidence(Run(os.path.join(folder, "run")))


    def test_a_run_without_times_is_refused(self):
        for times in ("", '{"step": 1, "loss": 1, "phases": {"evaluation": 5, "data": 9}}\n', '{"step": 1, "loss": 1, "milliseconds": 0}\n'):
            with self.subTest(times=times), tempfile.TemporaryDirectory() as folder:
                write_run(os.path.join(folder, "run"), {**CLEAN, "gradient_checkpointing": "full"})
                os.remove(os.path.join(folder, "run", "profile", "rank-0.jsonl"))
                os.mkfifo(os.path.join(folder, "run", "profile", "rank-0.jsonl"))  # nothing may wait for its writer
                with open(os.path.join(folder, "run", "metrics.jsonl"), "w", encoding="utf-8") as file:
                    file.write(times)
                with self.assertRaisesRegex(BadInput, "expected a run with the times of some steps"):
                    Evidence(Run(os.path.join(folder, "run")))


class RankingTest(unittest.TestCase):
    def test_what_fits_is_first_and_unknown_last(self):
        names = ["unknown", "small", "large", "fits"]
        found = [Advice(name, (), gain, None, "", fits=name == "fits") for name, gain in zip(names, [None, 1, 2, None])]
        self.assertEqual([advice.rule for advice in ranked(found)], ["fits", "large", "small", "unknown"])


class Turns:
    """A machine that gets slower, on which `fast=1` is worth 20 ms and `noise=1` nothing."""

    def __init__(self):
        self.runs = []

    def take_run(self, overrides, name, profile):
        self.runs.append(overrides)
        return types.SimpleNamespace(step=100 + len(self.runs) - 20 * ("fast=1" in overrides))


class TrialsTest(unittest.TestCase):
    def test_what_wins_is_kept_and_shown_beside_the_prediction(self):
        measure = Turns()
        found = [Advice("noise", ("noise=1",), 50, 0, ""), Advice("fast", ("fast=1",), 25, 0, ""), Advice("other", ("model.x=1",), 9, 0, "", "more")]
        tried, kept = try_advice(found, measure, 3, lambda words: None)
        self.assertEqual(kept, ("fast=1",))
        self.assertEqual([(trial.advice.rule, trial.kept) for trial in tried], [("noise", False), ("fast", True)])
        self.assertEqual(measure.runs[:6], [(), ("noise=1",), ("noise=1",), (), (), ("noise=1",)])
        self.assertRegex(list(lines(tried))[2], r"fast +25\.00 +\d+\.\d\d .* kept")

    def test_one_slow_run_with_the_advice_is_noise(self):
        times = iter((95, 90, 98, 108, 120, 99))  # every turn agrees, but runs without it scatter as much
        measure = types.SimpleNamespace(take_run=lambda *_, **__: types.SimpleNamespace(step=next(times)))
        self.assertEqual(try_advice([Advice("luck", ("luck=1",), 9, 0, "")], measure, 3, lambda words: None)[1], ())

    def test_a_trial_that_fails_loses_nothing_that_won(self):
        class Full(Turns):
            def take_run(self, overrides, name, profile):
                if "full=1" in overrides:
                    raise BadInput("out of memory")
                return super().take_run(overrides, name, profile)
        found = [Advice("fast", ("fast=1",), 25, 0, ""), Advice("full", ("full=1",), 9, 0, "")]
        self.assertEqual(try_advice(found, Full(), 3, lambda words: None)[1], ("fast=1",))

    def test_an_override_replaces_those_of_its_key_and_below(self):
        self.assertEqual(merged(("kernels.linear=aten", "a=1", "kernels={default: aten}"), ("kernels={default: best}",)),
                         ("a=1", "kernels={default: best}"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
