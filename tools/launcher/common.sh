# SPDX-License-Identifier: MIT
# Functions for all commands: messages, paths, and an environment that is the same on every machine.

# say WORDS...: never fails, because a full disk or a closed terminal must not change the exit code of a run.
say() { printf 'strata: %s\n' "$*" >&2 || true; }

# stop CODE SENTENCE: prints what is wrong and what to do about it, and exits.
stop() {
  local code=$1
  shift
  say "$*"
  exit "$code"
}

# Containers start commands without HOME or USER, but Bazel, pip and Open MPI need both. A folder that everybody can write
# to, such as /tmp, cannot stand in for HOME: programs that somebody else has put there first would be started.
export USER=${USER:-$(id -un 2>/dev/null || id -u)}
if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6) || true
  [[ -n $HOME ]] || stop 2 "HOME is not set, and user $(id -u) has no home in /etc/passwd; set HOME to a folder of your own"
  export HOME
fi
# A relative XDG_CACHE_HOME counts as none, as programs have it: each working directory would have a cache of its own.
CACHE=$HOME/.cache/strata
[[ ${XDG_CACHE_HOME-} != /* ]] || CACHE=$XDG_CACHE_HOME/strata

# alone_in FOLDER FUNCTION ARGUMENTS...: runs FUNCTION under a lock. FUNCTION must check again whether its work is still
# to do.
alone_in() {
  local folder=$1 lock
  shift
  { mkdir -p "$folder" && exec {lock}>>"$folder/.lock"; } 2>/dev/null ||
    stop 4 "the folder $folder cannot be made or written; name another one, or see who owns it"
  flock -n "$lock" || { say "waiting for another command that writes into $folder" && flock "$lock"; }
  "$@"
  exec {lock}>&-
}

# new_temporary_folder: makes a folder and prints its path.
new_temporary_folder() {
  mktemp -d || stop 4 "no folder for temporary files can be made in ${TMPDIR:-/tmp}; name another one in TMPDIR"
}

# make_temporary_folder: makes a folder that is removed when the command ends, and sets `temporary`. The variable is
# global, because the trap reads it after the function has returned: a path in the trap's text could end its quotes.
make_temporary_folder() {
  temporary=$(new_temporary_folder) || exit
  trap 'rm -rf -- "$temporary"' EXIT
}

# free_gib FOLDER: prints how many GiB are free on the file system of FOLDER, or of its nearest existing parent.
free_gib() {
  local folder=$1
  while [[ ! -d $folder ]]; do folder=$(dirname "$folder"); done
  echo $(($(df --output=avail -k "$folder" | tail -1) / 1024 / 1024))
}

# take_value WHAT ARGUMENTS...: sets `value` to the value of the option that ARGUMENTS begin with, --name VALUE or --name=VALUE, and `beside` to
# how many arguments it has after its own. An empty value, which an empty variable gives, is refused with what is wanted.
take_value() {
  local wanted=$1 option=${2%%=*}
  if [[ $2 == *=* ]]; then value=${2#*=} beside=0; else value=${3:-} beside=1; fi
  [[ -n $value ]] || stop 2 "$option wants a value that is not empty: $wanted"
}

# ranks_as_key ARGUMENTS...: copies them to `arguments`, with --ranks N as run.ranks=N after the others.
ranks_as_key() {
  local ranks=() value beside
  arguments=()
  while (($#)); do
    case $1 in
      --ranks | --ranks=*) take_value 'how many' "$@" && ranks+=("run.ranks=$value") && shift "$beside" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  arguments+=("${ranks[@]}")
}

# ask PROGRAM ARGUMENTS...: adds the output of the program to `facts`, values by name. If the program refuses its
# arguments, it prints why, and its exit code ends the command.
declare -A facts
ask() {
  local program=$1 lines line
  shift
  mapfile -t lines < <("$(binary "$program")" --for-launcher "$@")
  wait "$!" || exit
  for line in "${lines[@]}"; do facts[${line%%$'\t'*}]=${line#*$'\t'}; done
}

# nearest WORD NAMES...: prints the name that was probably meant, or nothing.
nearest() {
  python3 -I -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1, 0.75))' "$@" 2>/dev/null || true
}

# gpus_here [FOLDER]: prints how many GPUs there are for this process: the device files that it may open, as tools/gpus.py counts them. A job
# may have fewer of them than its machine.
# shellcheck disable=SC2120
gpus_here() {
  local file count=0
  for file in "${1:-/dev}"/nvidia[0-9]*; do
    if [[ -r $file && -w $file ]]; then ((++count)); fi
  done
  echo "$count"
}

# shellcheck disable=SC2119
has_gpu() { (($(gpus_here) > 0)); }

# A checkout builds its programs. An unpacked archive has them in bin/.
is_checkout() { [[ -e $ROOT/WORKSPACE ]]; }

# binary trainer/train: prints the path of a built program.
binary() {
  if is_checkout; then echo "$ROOT/bazel-bin/$1"; else echo "$ROOT/bin/${1##*/}"; fi
}

# The first words of a program for python -c. Without them Python would import files of the current folder, which may
# have been downloaded. The option -I would also leave out PYTHONPATH and packages of pip install --user.
readonly ONLY_INSTALLED='import sys; sys.path = [path for path in sys.path if path]; '

# Runs the Python that has the wheels.
python_program() { if is_checkout; then echo "$ROOT/.venv/bin/python"; else echo "${STRATA_PYTHON:-python3}"; fi; }

python() { "$(python_program)" "$@"; }

# In an archive, sets the loader's path to the LibTorch and CUDA libraries of this machine.
find_libraries() {
  is_checkout && return
  local torch=${STRATA_TORCH:-} wanted found cuda wanted_cuda site folder
  if [[ -z $torch ]]; then
    torch=$(python -c "$ONLY_INSTALLED"'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
  fi
  wanted=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$ROOT/tools/requirements.txt")
  [[ -n $torch ]] || stop 70 "the Python package torch is not installed; get it with: pip install torch==$wanted (or name its folder in STRATA_TORCH, or the Python that has it in STRATA_PYTHON)"
  [[ -e $torch/lib/libtorch_cpu.so ]] || stop 70 "$torch is not the folder of the torch package: it has no lib/libtorch_cpu.so"
  found=$(sed -n "s/^__version__ = '\([^'+]*\).*/\1/p" "$torch/version.py")
  [[ $found == "$wanted" ]] || stop 70 "torch $found is installed in $torch; these binaries need $wanted: pip install torch==$wanted"
  cuda=$(sed -n "s/^cuda.*= '\([0-9]*\).*/\1/p" "$torch/version.py")
  wanted_cuda=$(sed -n 's/^cuda-toolkit==\([0-9]*\)\..*/\1/p' "$ROOT/tools/requirements.txt")
  [[ $cuda == "$wanted_cuda" ]] || stop 2 "the torch in $torch is the wheel for ${cuda:+CUDA }${cuda:-CPUs alone}; these binaries need the one for CUDA $wanted_cuda, which is what PyPI has: pip install torch==$wanted"
  site=$(dirname "$torch")
  LD_LIBRARY_PATH=$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for folder in "$site"/nvidia/*/lib; do
    [[ -d $folder ]] && LD_LIBRARY_PATH+=:$folder
  done
  export LD_LIBRARY_PATH
}
