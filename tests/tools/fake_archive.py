# SPDX-License-Identifier: MIT
"""An unpacked archive with small shell scripts instead of the programs. It tests the launcher without LibTorch."""
import json
import os
import shutil
import signal
import subprocess
import time

# Each program appends its name to `programs`. The facts of a config are its lines `key: value`, then its overrides.
CHECK = r"""#!/bin/bash
echo check >>programs
[ "$1" = --help-keys ] && { echo "run.folder  where everything goes"; exit; }
[ "$1" = --for-launcher ] && shift || { [ -e "$1" ]; exit; }
[ "$1" = --to-train ] && shift
[ -e "$1" ] || { echo "$1: no such config" >&2; exit 2; }
if grep -q wrong "$1"; then echo "$1:1:1: wrong: no such key" >&2; exit 2; fi
printf '%s\t%s\n' run.device auto run.restarts 0 kernels.default aten kernels.plan '' packages.ops ''
while IFS= read -r line; do printf '%s\t%s\n' "${line%%: *}" "${line#*: }"; done <"$1"
shift
for override in "$@"; do printf '%s\t%s\n' "${override%%=*}" "${override#*=}"; done
"""

# The calls of a config are its name, or an error if it says so.
VALIDATE = r"""#!/bin/bash
[ "$1" = --aot-shapes ] || { echo "validated $*"; exit; }
echo validate >>programs
if grep -q "^data: none" "$2"; then echo "$2: no data" >&2; exit 3; fi
echo "calls of ${*:2}"
"""

# Runs until SIGUSR1 (exit 75) or for $seconds; rank 1 does what $act says.
TRAIN = r"""#!/bin/bash
rank=$OMPI_COMM_WORLD_RANK folder=$(sed -n 's/^run.folder: //p' "$1")
mkdir -p "$folder"
trap 'echo "rank $rank saves"; exit 75' USR1
trap '' INT TERM
env > "$folder/environment.$rank"
echo "$@" > "$folder/arguments.$rank"
echo "rank $rank says something" >&2
act=$(sed -n 's/^act: //p' "$1")
touch "$folder/started.$rank"
if [ "$rank" = 1 ]; then
  case $act in
    die) kill -KILL $$ ;;
    eat) exec tail /dev/zero ;;  # keeps a line that does not end
    crash) ulimit -c 0; kill -SEGV $$ ;;
    fail) echo '{"code": 5}' > "$folder/error.json"; exit 5 ;;
  esac
fi
for ((i = 0; i < $(sed -n 's/^seconds: //p' "$1") * 20; ++i)); do sleep 0.05; done
echo "rank $rank is done"
"""


class FakeArchive:
    """`folder` holds tools/ and bin/, as the archive does. Commands run in it."""

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree("tools", os.path.join(folder, "tools"))
        for name, text in (("check", CHECK), ("train", TRAIN), ("generate", '#!/bin/sh\necho "sample of $1 after $3"\n'), ("validate", VALIDATE)):
            self.write(f"bin/{name}", text, 0o755)
        version = next(line for line in open("tools/requirements.txt", encoding="utf-8") if line.startswith("torch=="))
        self.write("site/torch/version.py", f"__version__ = '{version.split()[0][7:]}+cu130'\ncuda: Optional[str] = '13.0'\n")
        self.write("site/torch/lib/libtorch_cpu.so", "")
        self.write("site/nvidia/cu13/lib/libcudart.so.13", "")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def config(self, ranks=2, seconds=0, act="", data="data/text/train.bin", images="", more=()):
        shutil.rmtree(self.path("run"), ignore_errors=True)
        self.write("programs", "")
        lines = [f"run.folder: {self.path('run')}", f"run.ranks: {ranks}", f"seconds: {seconds}", f"act: {act}", f"data.train: {data}", *more]
        lines += [f"data.train_images: {images}"] if images else []
        return self.write("config.yaml", "\n".join(lines) + "\n")

    def start(self, *arguments, before=(), environment=None, errors=subprocess.PIPE):
        """Starts tools/strata in a new session, so that Ctrl-C can be sent to its process group. `before` is a command that it runs under."""
        variables = {**os.environ, "STRATA_TORCH": self.path("site/torch"), **(environment or {})}
        variables.pop("OMP_NUM_THREADS", None)
        return subprocess.Popen([*before, self.path("tools/strata"), *arguments], cwd=self.folder, env=variables, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                                preexec_fn=heed_signals)

    def run(self, *arguments, **options):
        """Returns (exit code, output, errors)."""
        process = self.start(*arguments, **options)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def wait_for(self, name, seconds=20):
        end = time.monotonic() + seconds
        while not os.path.exists(self.path(name)):
            if time.monotonic() > end:
                raise TimeoutError(f"{name} did not come")
            time.sleep(0.02)

    def programs(self):
        """Returns the programs of Strata that were started since the last config was written, without the ranks."""
        return self.read("programs").split()

    def environment(self, rank):
        return dict(line.split("=", 1) for line in self.read(f"run/environment.{rank}").splitlines() if "=" in line)

    def report(self):
        return json.loads(self.read("run/error.json"))


def heed_signals():
    """Restores default signals. nohup and background jobs pass on ignored signals, which a shell cannot trap."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def wait_for_words(process, words):
    """Reads the launcher's output until it contains `words`."""
    said = ""
    while words not in said:
        line = process.stderr.readline()
        if not line:
            raise EOFError(f"the launcher ended without saying '{words}': {said}")
        said += line


def control_c(process):
    os.killpg(process.pid, signal.SIGINT)
