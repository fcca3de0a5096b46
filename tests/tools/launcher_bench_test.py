# SPDX-License-Identifier: MIT
"""Checks the launcher around measurements: plans that are made for a run, and ranks that save nothing."""
import json
import os
import signal
import subprocess
import time
import unittest

from fake_archive import FakeArchive

TMP = os.environ["TEST_TMPDIR"]

# Two ranks with temporary files, which do not delete them when a signal ends the ranks.
BENCH_STEP = r"""#!/bin/bash
rank=$OMPI_COMM_WORLD_RANK folder=$(sed -n 's/^run.folder: //p' "$1")
mkdir -p "$folder"
echo "$@" >"$folder/arguments.$rank"
echo "$TMPDIR" >"$folder/temporary.$rank"
touch "$TMPDIR/data.$rank" "$folder/started.$rank"
if [ "$rank" = 1 ] && grep -q '^act: die' "$1"; then
  until [ -e "$folder/started.0" ]; do sleep 0.02; done
  sleep 0.2
  kill -KILL $$
fi
for ((i = 0; i < $(sed -n 's/^seconds: //p' "$1") * 20; ++i)); do sleep 0.05; done
"""

# Writes the row of its level: cuda is not there, the level that `act` names disagrees with aten, and all others are timed.
STEP_OF_LEVEL = r"""#!/bin/bash
config=$1
echo "$@" >>words
while (($#)); do
  case $1 in
    --level) level=$2 ;;
    --json) json=$2 ;;
  esac
  shift
done
if [ "$level" = cuda ]; then echo '{"level": "cuda", "not_timed": "there is no GPU"}' >>"$json"; exit; fi
if grep -q "^act: $level" "$config"; then echo "{\"level\": \"$level\", \"not_timed\": \"the loss differs\"}" >>"$json"; exit 5; fi
cat >>"$json" <<END
{"level": "$level", "levels": {"linear": "$level", "attention": "aten"}, "milliseconds": 12.5, "milliseconds_p10": 12, "milliseconds_p90": 14, "times_aten": 0.5, \
"launches": 321, "step_memory_bytes": 7000000, "first_loss": 5.5, "first_gradient_norm": 1.25}
END
"""

# Prints its arguments, and ends with the exit code of the environment.
REPLAY = r"""#!/bin/bash
echo "$@"
sleep 0.3  # mpirun ends all ranks after the first failure
exit "$STRATA_ANSWER"
"""

# The plan's name depends on the micro-batch. Measuring takes half a second. `planned` holds the plan's packages.
PLAN_KERNELS = r"""#!/bin/bash
micro_batch=4
for word in "$@"; do case $word in micro_batch=*) micro_batch=${word#*=} ;; esac; done
echo plan_kernels >>programs
if [ "$1" = --for-launcher ]; then
  printf '%s\t%s\n' kernels.plan "plans/my $micro_batch.yaml" override "kernels.plan='plans/my $micro_batch.yaml'" packages.ops "$(cat planned)"
  exit
fi
echo measured >>measured
sleep 0.5
echo "levels:" >"${!#}"
"""


class LauncherBenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(TMP, "archive"))
        cls.archive.write("bin/bench_step", BENCH_STEP, 0o755)

    def test_a_plan_has_packages_only_for_gpus_that_run_them(self):
        script = """set -eu
            for part in common packages train; do source tools/launcher/$part.sh; done
            nvidia-smi() { [[ $made_up != silent ]] && echo "$made_up"; }
            make_packages() { package_architecture "${facts[run.device]}" >/dev/null && echo "packages for $*"; }
            declare -A facts=([run.device]=$device)
            has_gpu() { [[ -n $made_up ]]; }
            make_packages_for_plan a.yaml 2>&1"""
        without = "strata: the plan is without level aot_inductor, which has no packages for this GPU"
        for capability, device, expected in (("9.0", "auto", "packages for all a.yaml"), ("8.0", "cuda", without), ("10.0", "auto", without),
                                             ("8.0", "cpu", "packages for all a.yaml"), ("", "auto", "packages for all a.yaml")):
            words = {**os.environ, "made_up": capability, "device": device}
            result = subprocess.run(["bash", "-c", script], env=words, capture_output=True, text=True, check=True)
            self.assertEqual(result.stdout.strip(), expected, (capability, device))
        words = {**os.environ, "made_up": "silent", "device": "cuda"}
        result = subprocess.run(["bash", "-c", script], env=words, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, "packages for all" in result.stdout), (2, False), "a driver that does not answer: " + result.stdout)

    def test_best_measures_a_plan_once(self):
        self.archive.write("bin/plan_kernels", PLAN_KERNELS, 0o755)
        self.archive.write("planned", "")
        python = {"STRATA_PYTHON": self.archive.write("fake/python", "#!/bin/sh\nexit 0\n", 0o755)}
        config = self.archive.config(ranks=1, more=["run.device: cpu", "kernels.default: best"])
        measured = lambda: self.archive.read("measured").count("measured")
        # Two are started together, then others.
        both = [self.archive.start("bench", "step", config, environment=python) for _ in range(2)]
        for process in both:
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 0, errors)
            self.assertIn("best is what plans/my 4.yaml says", errors)
        self.assertEqual(measured(), 1)
        for command, more, number, times in ((["train"], [], 4, 1), (["train"], ["micro_batch=8"], 8, 2), (["bench", "step"], ["micro_batch=8"], 8, 2)):
            code, _, errors = self.archive.run(*command, config, *more, environment=python)
            self.assertEqual(code, 0, errors)
            self.assertTrue(self.archive.read("run/arguments.0").strip().endswith(f"kernels.plan='plans/my {number}.yaml'"))
            self.assertEqual(measured(), times)
        code, _, errors = self.archive.run("train", config, "kernels.plan=mine.yaml", environment=python)
        self.assertEqual((code, measured()), (0, 2), errors)

    def test_best_starts_two_programs_once_all_is_there(self):
        self.archive.write("bin/plan_kernels", PLAN_KERNELS, 0o755)
        for path in ("plans/my 16.yaml", "kernels/linear/linear.py"):
            self.archive.write(path, "")
        environment = {"STRATA_PYTHON": self.archive.write("fake/python", "#!/bin/sh\necho make_for_config >>programs\n", 0o755),
                       "STRATA_PACKAGES": os.path.dirname(self.archive.write("made/linear.txt", ""))}
        for planned, programs in (("", []), ("linear", ["validate", "make_for_config"]), ("linear", [])):
            self.archive.write("planned", planned)
            config = self.archive.config(ranks=1, more=["run.device: cpu", "kernels.default: best"])
            code, _, errors = self.archive.run("train", config, "micro_batch=16", environment=environment)
            self.assertEqual(code, 0, errors)
            self.assertEqual(self.archive.programs(), ["check", "plan_kernels", *programs])

    def started_bench(self, act="", environment=None):
        """Starts `bench step` with two ranks, waits until both have begun, and returns it with the folder of its
        temporary files."""
        process = self.archive.start("bench", "step", self.archive.config(seconds=20, act=act), environment=environment)
        for rank in range(2):
            self.archive.wait_for(f"run/started.{rank}")
        return process, self.archive.read("run/temporary.0").strip()

    def test_signals_end_what_cannot_be_resumed(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)):
            process, temporary = self.started_bench()
            self.assertTrue(os.path.exists(temporary + "/data.1"))
            begin = time.monotonic()
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
            self.assertEqual(process.returncode, code, errors)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertIn("stopped: nothing was saved", errors)
            self.assertNotIn("checkpoint", errors)
            self.assertFalse(os.path.exists(temporary))

    def test_temporary_folder_with_any_characters(self):
        place = self.archive.path("o'b; touch owned; '$(touch owned)")
        os.makedirs(place)
        process, temporary = self.started_bench(environment={"TMPDIR": place})
        self.assertEqual(os.path.dirname(temporary), place)
        process.terminate()
        _, errors = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 143, errors)
        self.assertFalse(os.path.exists(temporary))
        self.assertFalse(os.path.exists(self.archive.path("owned")))

    def test_killed_rank_of_what_cannot_be_resumed(self):
        process, temporary = self.started_bench("die")
        _, errors = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 137, errors)
        self.assertIn("rank 1 was killed", errors)
        self.assertNotIn("checkpoint", errors)
        self.assertFalse(os.path.exists(temporary))
        self.assertFalse(os.path.exists(self.archive.path("run/error.json")))

    def levels(self, act=""):
        self.archive.write("bin/bench_step", STEP_OF_LEVEL, 0o755)
        self.addCleanup(self.archive.write, "bin/bench_step", BENCH_STEP, 0o755)
        self.archive.write("bin/plan_kernels", PLAN_KERNELS, 0o755)
        for name in ("planned", "words", "levels.json"):
            self.archive.write(name, "")
        python = self.archive.write("fake/python", '#!/bin/sh\ncase $1 in *print_level_rows.py) exec python3 "$@" ;; esac\n', 0o755)
        config = self.archive.config(ranks=1, act=act, more=["run.device: cpu"])
        return self.archive.run("bench", "levels", config, "--json", self.archive.path("levels.json"), "batch=2", environment={"STRATA_PYTHON": python})

    def test_each_level_has_a_row(self):
        code, output, errors = self.levels()
        self.assertEqual(code, 0, errors)
        table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines()]
        self.assertEqual([line[0] for line in table], ["level", "---", "aten", "torchscript", "aot_inductor", "triton", "cuda", "best"])
        self.assertEqual(table[3], ["torchscript", "12.50 (12.00 to 14.00)", "0.50", "7.0", "321", "5.5", "1.25", "aten: attention"])
        self.assertEqual(table[6], ["cuda", *["-"] * 6, "not timed: there is no GPU"])
        rows = [json.loads(line) for line in self.archive.read("levels.json").splitlines()]
        self.assertEqual([row["level"] for row in rows], [line[0] for line in table[2:]])
        # All levels but aten are compared with it, and best follows a plan.
        words = self.archive.read("words").splitlines()
        self.assertEqual(["--aten" in line for line in words], [False] + [True] * 5)
        self.assertIn(" batch=2 ", words[0])
        self.assertTrue(words[-1].endswith("kernels={default: best} kernels.plan='plans/my 4.yaml'"), words[-1])

    def test_a_level_that_disagrees_is_an_error(self):
        code, output, errors = self.levels("triton")
        self.assertEqual(code, 5, errors)
        self.assertRegex(output, r"\| triton +\| - .* not timed: the loss differs \|\n\| cuda ")
        self.assertRegex(output, r"\| best +\| 12.50 ")
        code, output, errors = self.levels("aten")
        self.assertEqual((code, output), (5, ""), errors)
        self.assertEqual(len(self.archive.read("words").splitlines()), 1)

    def test_levels_want_a_configuration(self):
        self.archive.write("configs/quickstart.yaml", "")
        for words in ([], ["no.yaml"]):
            code, _, errors = self.archive.run("bench", "levels", *words)
            self.assertEqual(code, 2)
            self.assertIn("there are configs/quickstart.yaml", errors)

    def test_a_replay_runs_on_the_ranks_of_the_run_or_on_others(self):
        self.archive.write("bin/replay", REPLAY, 0o755)
        run = self.archive.path("a run")
        os.makedirs(run, exist_ok=True)
        os.replace(self.archive.config(ranks=2), os.path.join(run, "resolved.yaml"))
        for more, ranks in (["--from", "0"], 2), (["--locate", "--ranks", "1"], 1):
            self.archive.write("programs", "")
            code, output, errors = self.archive.run("replay", run, "--step", "7", *more, environment={"STRATA_ANSWER": "3"})
            self.assertEqual(code, 3, errors)
            words = [word for word in more if word not in ("--ranks", "1")] + (["run.ranks=1"] if ranks == 1 else [])
            self.assertEqual(output.splitlines(), [" ".join([run, "--step", "7", *words])] * ranks)
            self.assertEqual(self.archive.programs(), ["check"])

    def test_a_saved_layer_runs_on_one_rank(self):
        self.archive.write("bin/replay", REPLAY, 0o755)
        layer = os.path.join(self.archive.path("a run"), "nonfinite-step-7")
        os.makedirs(layer, exist_ok=True)
        os.replace(self.archive.config(ranks=4), os.path.join(layer, "resolved.yaml"))
        self.archive.write(os.path.join(layer, "nonfinite.json"), "{}")
        code, output, errors = self.archive.run("replay", layer, "run.device=cpu", environment={"STRATA_ANSWER": "5"})
        self.assertEqual((code, output), (5, layer + " run.device=cpu\n"), errors)


if __name__ == "__main__":
    unittest.main()
