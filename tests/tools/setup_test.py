# SPDX-License-Identifier: MIT
"""Checks that set-up does each step once and reports in one sentence what is missing."""
import hashlib
import os
import resource
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile

TMP = os.environ["TEST_TMPDIR"]
NOBODY = 65534


def processor_seconds():
    """Processor time of the programs that have ended. Wall-clock time also passes while others compute."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class SetupTest(unittest.TestCase):
    """A checkout with only the launcher, and small scripts instead of the system's commands."""

    def setUp(self):
        self.folder = os.path.join(TMP, self._testMethodName)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree("tools", os.path.join(self.folder, "tools"))
        for name in ("bin", "home"):
            os.makedirs(os.path.join(self.folder, name))
        self.write("WORKSPACE", "")
        self.write("tools/packages.txt", "bash coreutils # there on every machine\n")
        self.write("tools/requirements.txt", "# nothing but comments\n")
        self.stub("df", "echo Avail; echo 50000000")  # the disk of this machine may be nearly full

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def stub(self, name, script):
        self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n", 0o755)

    def link_commands(self, names):
        """Makes bin/ a PATH with only these commands."""
        for name in names.split():
            os.symlink(shutil.which(name, path="/usr/bin:/bin"), self.path(f"bin/{name}"))

    def setup(self, environment=None, path=None, **options):
        """Returns (exit code, errors)."""
        variables = {"PATH": path or f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home"), **(environment or {})}
        result = subprocess.run([self.path("tools/strata"), "setup"], env={k: v for k, v in variables.items() if v is not None},
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120, **options)
        self.assertEqual(result.stdout, "")
        return result.returncode, result.stderr

    def wanted_environment(self):
        with open(self.path("tools/requirements.txt"), "rb") as file:
            return f"home/.cache/strata/python-{hashlib.sha256(file.read()).hexdigest()[:12]}"

    def environment_path(self):
        return os.readlink(self.path(".venv"))

    def assert_stops(self, code, words, **arguments):
        found, said = self.setup(**arguments)
        self.assertEqual(found, code, said)
        self.assertIn(words, said)
        self.assertTrue(said.splitlines()[-1].startswith("strata: "), said)
        return said

    def test_makes_an_environment_once(self):
        self.stub("sync", f'[ -e "$2/bin/python" ] && [ ! -e "$2/.complete" ] && echo "$@" >>{self.path("synced")}')
        os.makedirs(self.path("home/.cache/strata"), mode=0o700)
        self.write("precious", "words")
        os.symlink(self.path("precious"), self.path("home/.cache/strata/.lock"))
        code, said = self.setup()
        self.assertEqual(code, 0, said)
        self.assertEqual(self.read("precious"), "words", "the link of a lock was emptied")
        self.assertEqual(self.read("synced"), f"-f {self.path(self.wanted_environment())}\n")
        self.assertIn("Python packages into", said)
        self.assertTrue(os.path.exists(os.path.join(self.environment_path(), ".complete")))
        self.assertTrue(self.environment_path().startswith(self.path("home/.cache/strata/python-")))
        begin = processor_seconds()
        code, said = self.setup()
        self.assertLess(processor_seconds() - begin, 1)
        self.assertEqual(code, 0, said)
        self.assertNotIn("installing", said)

    def test_help_of_train_waits_for_no_build(self):
        os.makedirs(self.path("bazel-bin/trainer"))
        self.write("bazel-bin/trainer/check", '#!/bin/sh\necho "keys $*"\n', 0o755)
        self.stub("bazel", "sleep 60")
        result = subprocess.run([self.path("tools/strata"), "train", "--help"], env={"PATH": f"{self.path('bin')}:/usr/bin:/bin"},
                                capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.endswith("\nkeys --help-keys\n"), result.stdout)
        self.assertIn("the keys of the last build", result.stderr)

    def keys(self, **environment):
        """Returns the errors of train --help, which builds what is not there, and says if it is older than the sources."""
        variables = {"PATH": f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home"), **environment}
        result = subprocess.run([self.path("tools/strata"), "train", "--help"], env=variables, capture_output=True, text=True,
                                check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.endswith("\nkeys --help-keys\n"), result.stdout)
        return result.stderr

    def test_changed_sources_are_seen_whatever_the_clock_says(self):
        environment = self.wanted_environment()
        for folder in (environment, "base", "configs", "kernels", "modules", "sharding", "trainer"):
            os.makedirs(self.path(folder))
        for name in (f"{environment}/.complete", "BUILD", ".bazelrc", ".bazelversion", "base/source.cc"):
            self.write(name, "")
        self.stub("bazel", """cd "$(dirname "$0")/.." && echo "$*" >asked && for label; do
  case $label in //*) path=bazel-bin/${label#//} && path=${path%:*}/${path##*:} ;; *) continue ;; esac
  mkdir -p "${path%/*}" && printf '#!/bin/sh\\necho "keys $*"\\n' >"$path" && chmod +x "$path"
done""")
        self.assertIn("building", self.keys())
        self.assertEqual(self.keys(), "")
        self.expect_help_of_programs()
        tomorrow = time.time() + 86400  # the time of a build before the clock was set back by a day
        os.utime(self.path("bazel-bin/strata.built"), (tomorrow, tomorrow))
        self.assertEqual(self.keys(), "")
        self.write("base/source.cc", "changed")
        self.assertIn("the sources have changed since", self.keys())
        self.write("base/source.cc", "")
        self.assertIn("the sources have changed since", self.keys())
        self.assertNotIn("disk_cache", self.read("asked"))
        os.remove(self.path("bazel-bin/trainer/check"))
        self.assertIn("building", self.keys(XDG_CACHE_HOME=self.path("home/.cache")))
        self.assertIn(f"build --disk_cache={self.path('home/.cache/strata/bazel')} //", self.read("asked"))

    def expect_help_of_programs(self):
        """Checks that each command whose options only its program knows finds this program where the build puts it."""
        for command in ("generate", "export", "import", "plan", "replay", "sensitivity", "bench kernels", "bench generate", "bench images",
                        "bench modules", "bench step"):
            result = subprocess.run([self.path("tools/strata"), *command.split(), "--help"], capture_output=True, text=True, check=False, timeout=60,
                                    env={"PATH": f"{self.path('bin')}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home")})
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "keys --help\n", ""), command)

    def test_runs_no_code_of_the_current_folder(self):
        os.makedirs(self.path("downloaded"))
        for name in ("venv", "pip", "runpy", "contextlib"):
            self.write(f"downloaded/{name}.py", f"open({self.path('owned')!r}, 'w')\n")
        code, said = self.setup(cwd=self.path("downloaded"))
        self.assertEqual(code, 0, said)
        self.assertFalse(os.path.exists(self.path("owned")))

    def test_other_requirements_are_another_environment(self):
        self.setup()
        first = self.environment_path()
        self.write("tools/requirements.txt", "# other comments\n")
        self.setup()
        self.assertNotEqual(self.environment_path(), first)
        self.assertTrue(os.path.exists(first), "other checkouts may use it")

    def test_a_half_made_environment_is_made_again(self):
        self.setup()
        os.unlink(os.path.join(self.environment_path(), ".complete"))
        self.write(os.path.join(self.environment_path(), "rest"), "")
        code, said = self.setup()
        self.assertEqual(code, 0, said)
        self.assertFalse(os.path.exists(os.path.join(self.environment_path(), "rest")))

    def test_two_at_once_make_one(self):
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.setup())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([code for code, _ in results], [0, 0], results)
        self.assertEqual(sum(said.count("Python packages into") for _, said in results), 1)

    def test_without_home_and_user(self):
        code, said = self.setup(environment={"HOME": None, "XDG_CACHE_HOME": self.path("cache")})
        self.assertEqual(code, 0, said)
        self.assertTrue(self.environment_path().startswith(self.path("cache/strata")))

    def test_without_any_home(self):
        self.stub("getent", "exit 2")
        self.assert_stops(2, "HOME is not set, and user", environment={"HOME": None})

    def test_cache_that_others_could_have_filled(self):
        environment = self.wanted_environment()
        os.makedirs(self.path(environment))
        self.write(f"{environment}/.complete", "")
        cache = os.path.dirname(self.path(environment))
        os.chmod(cache, 0o777)
        self.assert_stops(4, f"everybody can write to the folder {cache}")
        self.assertFalse(os.path.lexists(self.path(".venv")))
        os.chmod(cache, 0o775)
        self.assertEqual(self.setup()[0], 0)
        if os.geteuid() == 0:
            os.chown(cache, NOBODY, NOBODY)
            self.assert_stops(4, f"{cache} belongs to user {NOBODY}")
            os.chown(cache, 0, 0)
            os.rename(cache, cache + ".moved")
            os.symlink(cache + ".moved", cache)
            self.assertEqual(self.setup()[0], 0)
            os.chown(cache, NOBODY, NOBODY, follow_symlinks=False)
            self.assert_stops(4, f"{cache} belongs to user {NOBODY}")

    def test_folders_that_are_made_for_the_cache_are_those_of_the_user(self):
        code, said = self.setup(umask=0)
        self.assertEqual(code, 0, said)
        for folder in ("home/.cache", "home/.cache/strata"):
            self.assertEqual(os.stat(self.path(folder)).st_mode & 0o777, 0o700, folder)

    def test_another_machine(self):
        self.stub("uname", "echo Linux aarch64")
        self.assert_stops(70, "this is Linux aarch64")

    def test_not_debian(self):
        self.link_commands("bash readlink dirname uname id env")
        self.assert_stops(70, "there is no apt-get here", path=self.path("bin"))

    def test_installs_what_is_missing(self):
        self.write("tools/packages.txt", "bash strata-no-such-package\n")
        self.stub("apt-get", f'echo "$@" >> {self.path("apt")}')
        said = self.assert_stops(70, "these are still not there: strata-no-such-package")
        self.assertIn("installing Debian packages: strata-no-such-package", said)
        with open(self.path("apt"), encoding="utf-8") as file:
            update, install = file.read().splitlines()
        self.assertTrue(update.endswith("update"))
        self.assertTrue(install.endswith("install -y --no-install-recommends strata-no-such-package"))

    def test_apt_fails(self):
        self.write("tools/packages.txt", "strata-no-such-package\n")
        self.stub("apt-get", "echo E: no network; exit 100")
        self.assertIn("E: no network", self.assert_stops(70, "apt-get could not install the packages"))

    def test_little_space(self):
        self.stub("df", 'echo Avail; echo 5000000')
        self.assert_stops(4, "needs 12 GiB, and")

    def test_space_of_a_folder_that_is_not_there_yet(self):
        os.remove(self.path("bin/df"))  # the real one is asked
        for needed, code in ((0, 0), (10**7, 4)):
            script = f"ROOT=.; source tools/launcher/common.sh; source tools/launcher/setup.sh; has_space '{self.folder}/no/such' {needed} it"
            result = subprocess.run(["bash", "-c", script], env=os.environ | {"HOME": self.path("home")}, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertRegex(result.stderr, r"it needs 10000000 GiB, and \S+ has \d+ GiB free" if code else "^$")

    def test_pip_fails(self):
        self.write("tools/requirements.txt", "strata-no-such-package==1\n")
        self.assert_stops(70, "pip could not install", environment={"PIP_NO_INDEX": "1"})
        self.assertFalse(os.path.lexists(self.path(".venv")))

    def test_installs_only_wheels_with_known_hashes(self):
        os.makedirs(self.path("wheels"))
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.path("wheels")}
        source, about = self.path("wheels/nothing-1.tar.gz"), "nothing-1.dist-info"
        self.write("setup.py", f"open({self.path('owned')!r}, 'w')\nimport setuptools\nsetuptools.setup(name='nothing', version='1')\n")
        with tarfile.open(source, "w:gz") as file:
            file.add(self.path("setup.py"), "nothing-1/setup.py")
        with open(source, "rb") as file:
            known = hashlib.sha256(file.read()).hexdigest()
        self.write("tools/requirements.txt", f"# NAME==VERSION\nnothing==1 \\\n    --hash=sha256:{known}\n")
        said = self.assert_stops(70, "pip could not install", environment=index)
        self.assertIn("installing 1 Python packages", said)
        self.assertFalse(os.path.exists(self.path("owned")), "code of a source package was run")
        with zipfile.ZipFile(self.path("wheels/nothing-1-py3-none-any.whl"), "w") as file:
            file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: nothing\nVersion: 1\n")
            file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(f"{about}/RECORD", "")
        self.write("tools/requirements.txt", "nothing==1\n")
        self.assertIn("hash", self.assert_stops(70, "pip could not install", environment=index))

    def test_environment_of_somebody_else(self):
        os.makedirs(self.path(".venv"))
        self.assert_stops(70, "move it away")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become somebody without rights")
    def test_without_root(self):
        with tempfile.TemporaryDirectory() as folder:  # the test's own folder may be in root's home
            self.folder = shutil.copytree(self.folder, os.path.join(folder, "checkout"))
            for place in (folder, self.folder):
                os.chmod(place, 0o755)
            os.chown(self.path("home"), NOBODY, NOBODY)
            self.write("tools/packages.txt", "strata-no-such-package\n")
            self.link_commands("bash readlink dirname uname id env sed tr grep dpkg-query cut apt-get true")
            somebody = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "path": self.path("bin")}
            self.assert_stops(70, "there is no sudo here; as root run: apt-get install", **somebody)
            self.stub("sudo", "exit 1")
            self.assert_stops(70, "sudo asks for a password", **somebody)


if __name__ == "__main__":
    unittest.main()
