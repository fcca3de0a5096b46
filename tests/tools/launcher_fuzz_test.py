# SPDX-License-Identifier: MIT
"""Checks the launcher around fuzzing: what is installed, run and counted, and what a finding looks like."""
import os
import shutil
import subprocess
import sys
import unittest

TMP = os.environ["TEST_TMPDIR"]

# Builds the named programs. Each writes its arguments and what libFuzzer prints; `idx` finds something.
BAZEL = r"""#!/bin/bash
echo "$@" >>"$(dirname "$0")/../asked"
shift
[[ $1 != --define=* ]] || shift
mkdir -p bazel-bin/tests/fuzz
for label in "$@"; do
  name=${label##*:}
  [ "$name" = broken_fuzz ] && exit 1
  cat >bazel-bin/tests/fuzz/$name <<'END'
#!/bin/bash
echo "$TMPDIR $*" >>"$0.arguments"
[ -z "${LLVM_PROFILE_FILE:-}" ] || echo "lines of ${0##*/}" >"$LLVM_PROFILE_FILE"
for word in "$@"; do case $word in -artifact_prefix=*) findings=${word#*=} ;; esac; done
echo "#2	INITED cov: 310 ft: 400 corp: 4/1Kb exec/s: 0 rss: 40Mb" >&2
if [ "${0##*/}" = idx_fuzz ]; then
  echo "#77	NEW    cov: 311 ft: 401 corp: 5/1Kb" >&2
  echo "finding: a message with control characters" >&2
  echo bytes >"$findings/crash-0123"
  exit 77
fi
echo "stat::number_of_executed_units: 12345" >&2
END
  chmod +x bazel-bin/tests/fuzz/$name
done
"""


class LauncherFuzzTest(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(TMP, self._testMethodName)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree("tools", os.path.join(self.folder, "tools"))
        for name in ("WORKSPACE", "tests/fuzz/idx_fuzz.cc", "tests/fuzz/token_file_fuzz.cc", "tests/fuzz/broken_fuzz.cc"):
            self.write(name, "")
        self.write("tools/packages.txt", "bash # there on every machine\n")
        self.write("tools/fuzz_packages.txt", "coreutils # there too\n")
        self.write("tools/requirements.txt", "# nothing but comments\n")
        self.write("bin/bazel", BAZEL, 0o755)
        # An environment that is complete, so that set-up makes none.
        self.write("bin/sha256sum", "#!/bin/sh\necho 0123456789abcdef\n", 0o755)
        self.write("home/.cache/strata/python-0123456789ab/.complete", "")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def fuzz(self, *arguments):
        """Returns (exit code, output, errors)."""
        environment = {"PATH": f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home"),
                       "GIT_CEILING_DIRECTORIES": TMP}  # the folder of tests may lie in a checkout
        result = subprocess.run([self.path("tools/strata"), "fuzz", *arguments], env=environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, check=False, timeout=60)
        return result.returncode, result.stdout, result.stderr

    def ledger(self):
        return [line.split("\t") for line in self.read("tests/fuzz/ledger.tsv").splitlines()]

    def test_counts_what_a_target_ran(self):
        for times in (1, 2):
            code, output, errors = self.fuzz("token_file", "--seconds", "7")
            self.assertEqual(code, 0, errors)
            self.assertRegex(output, r"^token_file: 12345 runs, 310 edges, \d+ s, no finding\n$")
            self.assertEqual(len(self.ledger()), times)
        target, runs, edges, seconds, commit = self.ledger()[0]
        self.assertEqual((target, runs, edges), ("token_file", "12345", "310"))
        self.assertRegex(seconds, r"^\d+$")
        self.assertEqual(commit, "unknown")
        self.assertEqual(self.read("asked"), "build //tests/fuzz:token_file_fuzz\n" * 2)
        temporary, *words = self.read("bazel-bin/tests/fuzz/token_file_fuzz.arguments").split("\n")[0].split()
        self.assertIn("-max_total_time=7", words)
        self.assertIn(self.path("tests/fuzz/corpus/token_file"), words)
        self.assertFalse(os.path.exists(temporary), "files of inputs are left")

    def test_coverage_replays_the_known_inputs_and_counts_no_run(self):
        self.write("tests/fuzz/coverage.py", """import os, sys
for folder in sys.argv[2:4]:
    print(os.path.relpath(folder))
for program in sys.argv[4:]:
    print(open(os.path.join(sys.argv[1], os.path.basename(program) + ".profraw")).read(), end="")
sys.exit(1)
""")
        # An environment for Python, which set-up takes as complete.
        self.write("home/.cache/strata/python-0123456789ab/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n', 0o755)
        code, output, errors = self.fuzz("token_file", "--coverage")
        self.assertEqual((code, output), (1, "tests/fuzz/corpus\nhome/.cache/strata/fuzz/corpus\nlines of token_file_fuzz\n"), errors)
        self.assertEqual(self.read("asked"), "build --define=fuzz=coverage //tests/fuzz:token_file_fuzz\n")
        _, *words = self.read("bazel-bin/tests/fuzz/token_file_fuzz.arguments").split()
        self.assertEqual(words, ["-runs=0", self.path("home/.cache/strata/fuzz/corpus/token_file"), self.path("tests/fuzz/corpus/token_file")])
        self.assertFalse(os.path.exists(self.path("tests/fuzz/ledger.tsv")))

    def test_the_ledger_names_the_commit_and_changes(self):
        def git(*words):
            return subprocess.run(["git", "-C", self.folder, "-c", "user.name=a", "-c", "user.email=a", *words], env={"PATH": "/usr/bin:/bin", "HOME": TMP},
                                  capture_output=True, text=True, check=True).stdout.strip()
        git("init", "--quiet")
        self.write(".gitignore", "asked\nbazel-bin\nhome\n.venv\n")
        git("add", ".")
        git("commit", "--quiet", "--message", "all")
        self.fuzz("token_file")
        self.fuzz("token_file")  # the ledger has changed
        self.write("WORKSPACE", "changed")
        self.fuzz("token_file")
        commit = git("rev-parse", "--short", "HEAD")
        self.assertEqual([line[4] for line in self.ledger()], [commit, commit, commit + "+"])

    def test_a_finding_is_named_and_the_others_run(self):
        code, output, errors = self.fuzz("idx", "token_file", "--seconds=1")
        self.assertEqual(code, 1, errors)
        found, place, other = output.splitlines()
        self.assertRegex(found, r"^idx: 77 runs, 311 edges, \d+ s, A FINDING: finding: a message with control characters$")
        self.assertIn(self.path("home/.cache/strata/fuzz/findings/idx/crash-0123"), place)
        self.assertTrue(other.startswith("token_file: 12345 runs"), other)
        self.assertEqual([line[0] for line in self.ledger()], ["idx", "token_file"])

    def test_without_a_name_all_targets_are_built(self):
        code, _, errors = self.fuzz()
        self.assertEqual(code, 70, errors)
        self.assertIn("the build failed", errors)
        self.assertEqual(self.read("asked").split(), ["build"] + [f"//tests/fuzz:{name}_fuzz" for name in ("broken", "idx", "token_file")])

    def test_wrong_arguments(self):
        for arguments, words in ((["token"], "there is no target 'token'; There are: broken idx token_file"), (["token_fil"], "did you mean 'token_file'"),
                                 (["--seconds", "0"], "expected a whole number"), (["--seconds"], "wants a value"),
                                 (["--all"], "only the options --seconds and --coverage")):
            code, _, errors = self.fuzz(*arguments)
            self.assertEqual(code, 2, errors)
            self.assertIn(words, errors)
        self.assertFalse(os.path.exists(self.path("asked")))

    def test_only_fuzz_installs_clang(self):
        self.write("tools/fuzz_packages.txt", "strata-no-such-package\n")
        self.write("bin/apt-get", "#!/bin/sh\nexit 0\n", 0o755)
        code, _, errors = self.fuzz("idx")
        self.assertEqual(code, 70, errors)
        self.assertIn("installing Debian packages: strata-no-such-package", errors)
        environment = {"PATH": f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home")}
        result = subprocess.run([self.path("tools/strata"), "setup"], env=environment, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
