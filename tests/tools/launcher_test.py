# SPDX-License-Identifier: MIT
"""Checks the launcher with the real mpirun: ranks, threads, packages, terminal, and what it passes on."""
import contextlib
import os
import shutil
import sys
import tempfile
import time
import unittest

from fake_archive import FakeArchive

TMP = os.environ["TEST_TMPDIR"]


class LauncherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(TMP, "archive"))

    def test_runs_the_ranks_of_the_config(self):
        code, output, errors = self.archive.run("train", self.archive.config(), "steps=4")
        self.assertEqual(code, 0, errors)
        self.assertIn("rank 0 is done", output)
        self.assertIn("rank 1 is done", output)
        self.assertIn("rank 1 says something", errors)
        self.assertIn(f"the results are in {self.archive.path('run')}", errors)
        self.assertTrue(self.archive.read("run/arguments.1").strip().endswith("config.yaml steps=4"))
        self.assertFalse(os.path.exists(self.archive.path("run/started.2")))

    def test_ranks_is_an_override(self):
        for arguments in (["--ranks", "3"], ["--ranks=3"], ["run.ranks=3"]):
            code, _, errors = self.archive.run("train", self.archive.config(ranks=1), *arguments)
            self.assertEqual(code, 0, errors)
            self.assertIn("run.ranks=3", self.archive.read("run/arguments.2"))
            self.assertEqual(self.archive.environment(2)["OMPI_COMM_WORLD_SIZE"], "3")

    def test_shares_the_cores(self):
        cores = len(os.sched_getaffinity(0))
        for ranks in (1, 2, 4):
            self.assertEqual(self.archive.run("train", self.archive.config(ranks=ranks))[0], 0)
            self.assertEqual(self.archive.environment(0)["OMP_NUM_THREADS"], str(max(1, cores // ranks)))

    def test_an_mpirun_that_starts_or_ends_disturbs_no_other_one(self):
        """Open MPI 4.1 removes the folder ompi.HOST.USER in TMPDIR, if it is empty, when an mpirun starts and when one ends. This test does the same while
        an mpirun makes its folders slowly."""
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")
        slow = "#!/bin/sh\nexec strace -o /dev/null -e trace=mkdir -e inject=mkdir:delay_exit=300000 %s \"$@\"\n" % os.path.realpath(shutil.which("mpirun"))
        folder = os.path.dirname(self.archive.write("slow/mpirun", slow, 0o755))
        with tempfile.TemporaryDirectory() as temporary:
            run = self.archive.start("train", self.archive.config(ranks=1), environment={"TMPDIR": temporary, "PATH": folder + ":" + os.environ["PATH"]})
            seen = set()
            while run.poll() is None:
                for name in os.listdir(temporary):
                    seen.add(name)
                    if name.startswith("ompi."):
                        with contextlib.suppress(OSError):  # it is not empty
                            os.rmdir(os.path.join(temporary, name))
                time.sleep(0.01)
            output, errors = run.communicate()
            self.assertEqual(run.returncode, 0, output + errors)
            self.assertEqual(os.listdir(temporary), [])
        self.assertNotEqual(seen, set())

    def test_shows_the_loader_the_libraries(self):
        self.assertEqual(self.archive.run("train", self.archive.config())[0], 0)
        folders = self.archive.environment(1)["LD_LIBRARY_PATH"].split(":")
        self.assertEqual(folders[0], self.archive.path("site/torch/lib"))
        self.assertIn(self.archive.path("site/nvidia/cu13/lib"), folders)

    def test_refuses_another_torch(self):
        version = self.archive.read("site/torch/version.py")
        try:
            self.archive.write("site/torch/version.py", "__version__ = '1.13.1+cpu'\n")
            code, _, errors = self.archive.run("train", self.archive.config())
        finally:
            self.archive.write("site/torch/version.py", version)
        self.assertEqual(code, 70)
        self.assertRegex(errors, r"torch 1\.13\.1 is installed .* need 2\.")
        for other, words in (("'12.6'", "CUDA 12"), ("None", "CPUs alone")):
            try:
                self.archive.write("site/torch/version.py", version.replace("'13.0'", other))
                code, _, errors = self.archive.run("train", self.archive.config())
            finally:
                self.archive.write("site/torch/version.py", version)
            self.assertEqual(code, 2)
            self.assertIn(f"is the wheel for {words}; these binaries need the one for CUDA 13", errors)
        code, _, errors = self.archive.run("train", self.archive.config(), environment={"STRATA_TORCH": "/nowhere"})
        self.assertEqual(code, 70)
        self.assertIn("/nowhere is not the folder of the torch package", errors)

    def test_runs_no_code_of_the_current_folder(self):
        files = [self.archive.write(name, "open('owned', 'w')\n") for name in ("difflib.py", "contextlib.py", "torch/__init__.py")]
        try:
            self.assertIn("did you mean 'train'?", self.archive.run("trian")[2])
            installed = {"STRATA_TORCH": "", "STRATA_PYTHON": os.environ["PYTHON"]}
            code, _, errors = self.archive.run("train", self.archive.config(), environment=installed)
        finally:
            for path in files:
                os.remove(path)
        self.assertEqual(code, 0, errors)
        self.assertFalse(os.path.exists(self.archive.path("owned")))

    def train_with_packages(self, *lines, code=0, folder=""):
        """Runs and returns (exit code, errors, arguments and input of make_for_config.py). The compiler ends with
        `code`."""
        compiled = self.archive.path("compiled")
        if os.path.exists(compiled):
            os.remove(compiled)
        if not folder:
            folder = self.archive.path("packages")
            shutil.rmtree(folder, ignore_errors=True)
        config = self.archive.config(ranks=1, more=["run.device: cpu", "model.width: 128", *lines])
        # Packages must be compiled before ranks start. So the compiler fails if ranks have created the run's folder.
        python = self.archive.write("fake/python", f"#!/bin/sh\n[ -e {self.archive.path('run')} ] && exit 3\necho make_for_config >>programs\n"
                                    f"echo \"$@\" >>{compiled}\ncat >>{compiled}\nexit {code}\n", 0o755)
        code, _, errors = self.archive.run("train", config, "steps=4", environment={"STRATA_PYTHON": python, "STRATA_PACKAGES": folder})
        return code, errors, self.archive.read("compiled") if os.path.exists(compiled) else ""

    def test_compiles_packages_before_ranks_start(self):
        for ops in ("all", "linear,rotary"):
            code, errors, called = self.train_with_packages(f"packages.ops: {ops}")
            self.assertEqual(code, 0, errors)
            self.assertEqual(called, f"{self.archive.path('tools/aot_inductor/make_for_config.py')} --ops {ops} --architecture x86-64-v3 "
                             f"--root {self.archive.folder} --built {self.archive.path('kernels')} --output {self.archive.path('packages')}\n"
                             f"calls of {self.archive.path('config.yaml')} steps=4\n")

    def test_compiles_nothing_for_other_levels(self):
        self.assertEqual(self.train_with_packages("kernels.default: triton")[::2], (0, ""))

    def test_packages_that_cannot_be_made_end_the_command(self):
        code, errors, _ = self.train_with_packages("packages.ops: all", code=1)
        self.assertEqual(code, 70)
        self.assertIn("the packages of level aot_inductor could not be made", errors)
        self.assertFalse(os.path.exists(self.archive.path("run")))

    def test_calls_that_cannot_be_found_end_the_command(self):
        code, errors, called = self.train_with_packages("packages.ops: all", "data: none")
        self.assertEqual((code, called), (3, ""))
        self.assertIn("config.yaml: no data", errors)
        self.assertFalse(os.path.exists(self.archive.path("run")))

    def test_packages_that_were_complete_are_looked_at_again_when_something_changed(self):
        package = "own/swiglu.txt"
        for path in ("kernels/swiglu/swiglu.py", package):
            self.archive.write(path, "")
        both, one = ["check", "validate", "make_for_config"], ["check"]
        change, remove = (lambda path: self.archive.write(path, "other")), (lambda path: os.remove(self.archive.path(path)))
        build = lambda path: self.archive.write(path, self.archive.read(path), 0o755)
        steps = [(None, "linear", both), (None, "linear", one), (None, "all", both), (None, "all", one), (None, "rotary", one),
                 (change, package, both), (None, "all", one), (change, "kernels/swiglu/swiglu.py", both), (None, "all", one),
                 (remove, package, both), (None, "all", one), (build, "bin/validate", both), (None, "all", one)]
        for act, what, programs in steps:
            if act:
                act(what)
            ops = "all" if act else what
            code, errors, _ = self.train_with_packages(f"packages.ops: {ops}", folder=self.archive.path("own"))
            self.assertEqual((code, self.archive.programs()), (0, programs), errors)
        self.train_with_packages("packages.ops: all", "schedule.warmup: 7", folder=self.archive.path("own"))
        self.assertEqual(self.archive.programs(), one, "no shape depends on the schedule")
        for lines, code in ((["model.width: 64"], 70), (["model.width: 64"], 0)):  # a failure leaves no record
            found, errors, _ = self.train_with_packages("packages.ops: all", *lines, folder=self.archive.path("own"), code=code and 1)
            self.assertEqual((found, self.archive.programs()), (code, both), errors)

    def test_starts_one_program_before_the_ranks(self):
        self.assertEqual(self.archive.run("train", self.archive.config(), "steps=4", "--ranks", "1")[0], 0)
        self.assertEqual(self.archive.programs(), ["check"])

    def test_values_of_any_characters(self):
        folder = self.archive.path(" a'b*\\n$(touch owned)] ")
        os.makedirs(folder)
        code, _, errors = self.archive.run("train", self.archive.config(), f"run.folder={folder}")
        self.assertEqual(code, 0, errors)
        self.assertIn(f"the results are in {folder}:", errors)
        self.assertFalse(os.path.exists(self.archive.path("owned")))

    def test_wrong_config_is_said_before_anything_starts(self):
        path = self.archive.write("wrong.yaml", "wrong: 1\n")
        begin = time.monotonic()
        code, _, errors = self.archive.run("train", path)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(code, 2)
        self.assertIn("wrong.yaml:1:1", errors)

    def test_wrong_use(self):
        for arguments, word in ((["fly"], "no command 'fly'"), (["train"], "which config?"), (["train", "a=b"], "which config?"),
                                (["train", "--fast", "x"], "no option --fast; a key of the configuration is given as fast=x: tools/strata train CONFIG"),
                                (["train", "--steps=4"], "given as steps=4:"), (["train", "x", "--steps"], "given as steps=VALUE:"),
                                (["train", "--rank", "2"], "no option --rank; did you mean --ranks?"), (["trian"], "no command 'trian'; did you mean 'train'?"),
                                (["help", "gpu-tets"], "did you mean 'gpu-test'?"), (["train", "x", "--ranks"], "--ranks wants a value"),
                                (["train", "x", "--ranks="], "--ranks wants a value that is not empty: how many"),
                                (["train", "x", "--hosts", ""], "--hosts wants a value that is not empty"),
                                (["train", "x", "--hosts="], "--hosts wants a value"), (["bench", "levels", "x", "--json="], "--json wants a value that is not empty: which file"),
                                (["validate"], "which config?"), (["generate"], "of which run?"),
                                (["validate", "x", "--svg"], "--svg wants a value"), (["validate", "x", "--svg="], "--svg wants a value that is not empty"),
                                (["validate", "x", "--svg", ""], "--svg wants a value that is not empty"), (["validate", "--svg", "x"], "which config?"),
                                (["validate", "x", "--times", "y"], "--times is an option of --promise"), (["validate", "x", "--promise", "--json"], "--json wants a value"),
                                (["measure", "x", "--fast"], "measure has no option --fast"), (["measure", "x", "--times"], "--times wants a value that is not empty: which file"),
                                (["measure", "x", "--times="], "--times wants a value"), (["validate", "x", "--promise", "--times="], "--times wants a value"),
                                (["replay", "--step", "3"], "of which run?"), (["replay", "nowhere"], "nowhere is not the folder of a run"),
                                (["export", "x"], "which run"), (["sensitivity"], "of which run?"), (["report"], "of which run?"), (["follow"], "which run?"), (["compare", "x"], "what with what?"), (["advise"], "on which config?"), (["prepare"], "what?"), (["test"], "works in a checkout"), (["dist"], "works in a checkout"),
                                (["plan", "a=b"], "of which config?"), (["prepare", "graph", "--output"], "--output wants a value that is not empty: which folder"),
                                (["prepare", "graph", "--output="], "--output wants a value"), (["prepare", "graph", "--outputs=x"], "only the option --output FOLDER"),
                                (["profile", "x", "--output"], "--output wants a value"), (["profile", "x", "--output="], "--output wants a value"),
                                (["bench", "step", "x", "--ranks"], "--ranks wants a value"),
                                (["fly", "--help"], "no command 'fly'"), (["help", "fly"], "no command 'fly'"),
                                (["profile", "--ranks", "2"], "of which config?"), (["explain", "linear"], "reads the sources of a checkout"),
                                (["test", "--tier"], "--tier wants a value that is not empty: unit, integration, stress or all"), (["test", "--tier="], "--tier wants a value"),
                                (["test", "--tier", "fast"], "stress or all, got 'fast'"), (["test", "unit"], "got 'unit'"),
                                (["test", "--tier", "unit", "--all"], "but --tier is 'unit'"), (["test", "--all", "--tier=stress"], "works in a checkout"),
                                (["test", "--tier=unit", "--profile"], "works in a checkout"), (["test", "--sanitize", ""], "--sanitize wants a value that is not empty: address or thread"),
                                (["test", "--sanitize="], "--sanitize wants a value"), (["validate", "x", "--promise", "--latency="], "--latency wants a value that is not empty: how many microseconds"),
                                (["test", "--sanitize=memory"], "expected address or thread, got 'memory'"),
                                (["test", "--tier", "unit", "--sanitize", "thread"], "has a budget of 30 s")):
            code, _, errors = self.archive.run(*arguments)
            self.assertEqual(code, 2, arguments)
            self.assertIn(word, errors)

    def test_every_command_says_what_it_does(self):
        for command in ("validate", "measure", "packages", "report", "follow", "levels", "explain", "test", "gpu-test", "setup", "dist", "profile", "prepare", "bench", "compare", "claims", "advise",
                        "help"):
            for arguments in ([command, "--help"], [command, "x", "-h"], ["help", command]):
                code, output, errors = self.archive.run(*arguments)
                self.assertEqual((code, errors), (0, ""), arguments)
                self.assertRegex(output, rf"^  {command}\b", arguments)
                self.assertNotIn("  train", output)
        program = self.archive.write("bin/export", '#!/bin/sh\necho "options of export: $@"\n', 0o755)
        try:
            self.assertEqual(self.archive.run("export", "--help")[1], "options of export: --help\n")
        finally:
            os.remove(program)

    def test_passes_on(self):
        config = self.archive.config()
        self.assertEqual(self.archive.run("validate", config)[1], f"validated {config}\n")
        self.assertEqual(self.archive.run("validate", "--ranks", "4", config)[1], f"validated {config} run.ranks=4\n")
        for words in ((config, "--svg", "a b", "steps=4"), ("--svg=a b", config, "steps=4")):
            self.assertEqual(self.archive.run("validate", *words)[1], f"validated --svg a b {config} steps=4\n")
        self.archive.write("dygraphs/dygraph.min.js", "")
        run = os.path.dirname(self.archive.write("some run/metrics.jsonl", '{"step": 1, "loss": 2}\n'))
        charts = {"STRATA_DYGRAPHS": self.archive.path("dygraphs")}
        code, output, errors = self.archive.run("report", run, "--output", "a page.html", environment=charts)
        self.assertEqual((code, output, errors), (0, "the page is a page.html\n", ""))
        self.assertIn("some run", self.archive.read("a page.html"))
        code, output, errors = self.archive.run("report", run, environment={"STRATA_DYGRAPHS": "/nowhere"})
        self.assertEqual((code, output), (70, ""))
        self.assertIn("the Debian package libjs-dygraphs, which is not installed", errors)
        self.assertEqual(self.archive.run("generate", "runs/x", "--prompt", "Once")[1], "sample of runs/x after Once\n")
        self.assertIn("where everything goes", self.archive.run("train", "--help")[1])
        for name in ("train", "prepare text", "STRATA_MPIRUN_FLAGS"):
            self.assertIn(name, self.archive.run("help")[1])

    def test_compare_returns_its_exit_code(self):
        lines = "".join(f'{{"step": {step}, "loss": 1.5, "gradient_norm": 1, "milliseconds": {90 + step % 7}}}\n' for step in range(1, 99))
        for name, text in (("a", lines), ("b", lines.replace("1.5", "1.25"))):
            self.archive.write(f"{name}/metrics.jsonl", text)
        for other, code, word in (("a", 0, "equal"), ("b", 1, "different")):
            found, output, errors = self.archive.run("compare", "a", other, environment={"STRATA_PYTHON": sys.executable})
            self.assertEqual((found, errors), (code, ""))
            self.assertIn(f"verdict: {word}\n", output)

    def test_claims_returns_its_exit_code(self):
        python = {"STRATA_PYTHON": sys.executable}
        code, output, errors = self.archive.run("claims", environment=python)
        self.assertEqual((code, errors), (0, ""))
        self.assertRegex(output, r"^\| claim ")
        self.assertEqual(self.archive.run("claims", "check", "no_such_claim", environment=python)[0], 2)

    def test_no_terminal_in_a_pipe(self):
        self.assertEqual(self.archive.run("train", self.archive.config(), environment={"STRATA_TERMINAL": "1"})[0], 0)
        self.assertNotIn("STRATA_TERMINAL", self.archive.environment(0))

    def test_terminal_is_passed_down(self):
        program, config = self.archive.path("tools/strata"), self.archive.config()
        pid, terminal = os.forkpty()
        if pid == 0:
            os.chdir(self.archive.folder)
            os.execve(program, [program, "train", config], dict(os.environ, STRATA_TORCH=self.archive.path("site/torch")))
        try:
            while os.read(terminal, 1024):
                pass
        except OSError:  # the other end of the terminal was closed
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)
        self.assertEqual(self.archive.environment(1)["STRATA_TERMINAL"], "1")

    def test_hosts(self):
        # The hosts are two names of this machine, so no agent of another machine is needed.
        hosts = self.archive.write("hosts", "# the machines\nlocalhost slots=2\n")
        for argument in (hosts, "localhost:2"):
            code, _, errors = self.archive.run("train", self.archive.config(), "--hosts", argument)
            self.assertEqual(code, 0, errors)
            self.assertEqual(self.archive.environment(1)["OMPI_COMM_WORLD_SIZE"], "2")
        code, _, errors = self.archive.run("train", self.archive.config(ranks=3), "--hosts", "localhost:2")
        self.assertNotEqual(code, 0)
        self.assertIn("not enough slots", errors)
        self.archive.write("hosts", "localhost slots=1 max_slots=1000000\n")
        self.assertEqual(self.archive.run("train", self.archive.config(ranks=1), "--hosts", hosts)[0], 0)
        self.assertEqual(self.archive.environment(0)["OMP_NUM_THREADS"], str(len(os.sched_getaffinity(0))))

    def test_more_flags_for_mpirun(self):
        code, output, errors = self.archive.run("train", self.archive.config(), environment={"STRATA_MPIRUN_FLAGS": "--tag-output"})
        self.assertEqual(code, 0, errors)
        self.assertIn("[1,1]<stdout>:rank 1 is done", output)
        self.archive.write("MARK=file", "")
        self.assertEqual(self.archive.run("train", self.archive.config(), environment={"STRATA_MPIRUN_FLAGS": "-x MARK=*"})[0], 0)
        self.assertEqual(self.archive.environment(0)["MARK"], "*", "a flag was taken for a pattern of file names")

    def test_commands_that_prepare_the_same_data_take_turns(self):
        python = self.archive.write("fake/python", f"#!/bin/sh\nfor file; do :; done\necho made >>{self.archive.path('made')}\nsleep 0.5\ntouch \"$file\"\n", 0o755)
        both = [self.archive.start("prepare", "graph", "--output", "data/together", environment={"STRATA_PYTHON": python}) for _ in range(2)]
        errors = [process.communicate(timeout=60)[1] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], errors)
        self.assertEqual(self.archive.read("made"), "made\n")
        self.assertIn("waiting for another command that writes into data/together", "".join(errors))
        self.archive.write("data/file", "")
        code, _, errors = self.archive.run("prepare", "graph", "--output", "data/file/x", environment={"STRATA_PYTHON": python})
        self.assertEqual(code, 4)
        self.assertIn("the folder data/file/x cannot be made or written", errors)

    def test_vision_quick_start_brings_its_images(self):
        config = self.archive.config(data="", images="data/fashion-mnist/train-images-idx3-ubyte.gz")
        code, _, errors = self.archive.run("train", config, environment={"STRATA_DATASETS": self.archive.path("nowhere")})
        self.assertEqual(code, 3)
        self.assertIn("dataset-fashion-mnist, which is not installed", errors)
        code, output, errors = self.archive.run("train", config)
        self.assertEqual(code, 0, errors)
        self.assertEqual(sorted(os.listdir(self.archive.path("data/fashion-mnist"))), [
            "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"])
        self.assertNotIn("sample of", output)
        with open("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", "rb") as file:
            labels = file.read()
        with open(self.archive.path("data/fashion-mnist/t10k-labels-idx1-ubyte.gz"), "rb") as file:
            self.assertEqual(file.read(), labels)

    def test_graph_quick_start_brings_its_graph(self):
        self.archive.write("bin/python", f"#!/bin/sh\nexec {os.environ['PYTHON']} \"$@\"\n", 0o755)
        config = self.archive.config(data="", more=["data.file: data/wordnet/graph.npz"])
        python = {"STRATA_PYTHON": self.archive.path("bin/python")}
        code, _, errors = self.archive.run("train", config, environment={**python, "STRATA_WORDNET": self.archive.path("nowhere")})
        self.assertEqual(code, 3)
        self.assertIn("wordnet-base, which is not installed", errors)
        code, output, errors = self.archive.run("train", config, environment=python)
        self.assertEqual(code, 0, errors)
        self.assertEqual(sorted(os.listdir(self.archive.path("data/wordnet"))), [".lock", "graph.npz"])
        self.assertIn("split 8312 8099 8129 8195 8144 8363 8022 8367 8278 8206", output)
        self.assertNotIn("sample of", output)

    def test_quick_start_brings_its_text_and_shows_a_sample(self):
        self.archive.write("bin/python", f"#!/bin/sh\nexec {os.environ['PYTHON']} \"$@\"\n", 0o755)
        config = self.archive.config(data="data/bible/train.bin")
        code, output, errors = self.archive.run("train", config, environment={"STRATA_PYTHON": self.archive.path("bin/python")})
        self.assertEqual(code, 0, errors)
        self.assertEqual(os.path.getsize(self.archive.path("data/bible/train.bin")), 1024 + 2 * (4137850 * 9 // 10))
        self.assertIn("sample of", output)


if __name__ == "__main__":
    unittest.main()
