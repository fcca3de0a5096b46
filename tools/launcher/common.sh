# SPDX-License-Identifier: MIT
# What all commands share: how they speak, where things are, an environment that is the same everywhere.

say() { printf 'strata: %s\n' "$*" >&2; }

# stop CODE SENTENCE: what is wrong and what to do about it.
stop() {
  local code=$1
  shift
  printf 'strata: %s\n' "$*" >&2
  exit "$code"
}

# Containers start commands without HOME or USER; Bazel, pip and Open MPI want both.
export USER=${USER:-$(id -un 2>/dev/null || id -u)}
if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME=${HOME:-/tmp}
fi
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/strata

# alone_in FOLDER FUNCTION ARGUMENTS...: commands started together take turns. FUNCTION looks first what is there by then.
alone_in() {
  local folder=$1 lock
  shift
  { mkdir -p "$folder" && exec {lock}>"$folder/.lock"; } 2>/dev/null ||
    stop 4 "the folder $folder cannot be made or written; name another one, or see who owns it"
  flock -n "$lock" || { say "waiting for another command that writes into $folder" && flock "$lock"; }
  "$@"
  exec {lock}>&-
}

# ranks_as_key ARGUMENTS...: sets `arguments` to them, with --ranks N as run.ranks=N behind the others.
ranks_as_key() {
  local ranks=()
  arguments=()
  while (($#)); do
    case $1 in
      --ranks)
        (($# > 1)) || stop 2 "--ranks wants a value: how many"
        ranks+=("run.ranks=$2")
        shift
        ;;
      --ranks=*) ranks+=("run.ranks=${1#*=}") ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  arguments+=("${ranks[@]}")
}

# ask PROGRAM ARGUMENTS...: adds the answer of the program to `facts`, values by name. A program that refuses its
# arguments says why, and its exit code ends the command.
declare -A facts
ask() {
  local program=$1 lines line
  shift
  mapfile -t lines < <("$(binary "$program")" --for-launcher "$@")
  wait "$!" || exit
  for line in "${lines[@]}"; do facts[${line%%$'\t'*}]=${line#*$'\t'}; done
}

# nearest WORD NAMES...: the name that was probably meant, or nothing.
nearest() {
  python3 -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1, 0.75))' "$@" 2>/dev/null || true
}

# A checkout builds its binaries; an unpacked archive has them in bin/.
is_checkout() { [[ -e $ROOT/WORKSPACE ]]; }

# binary trainer/train: the path of a built program.
binary() {
  if is_checkout; then echo "$ROOT/bazel-bin/$1"; else echo "$ROOT/bin/${1##*/}"; fi
}

# The Python that has the wheels.
python() {
  if is_checkout; then
    "$ROOT/.venv/bin/python" "$@"
  else
    "${STRATA_PYTHON:-python3}" "$@"
  fi
}

# In an archive the loader must be told where this machine has LibTorch and the CUDA libraries.
find_libraries() {
  is_checkout && return
  local torch=${STRATA_TORCH:-} wanted found cuda wanted_cuda site folder
  if [[ -z $torch ]]; then
    torch=$(python -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
  fi
  wanted=$(sed -n 's/^torch==//p' "$ROOT/tools/requirements.txt")
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
