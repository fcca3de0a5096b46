# SPDX-License-Identifier: MIT
# The commands that run one program with one process.

# Sets up, builds and finds the libraries. `check` checks a config before that, because it needs none of them.
make_ready() {
  setup
  build
  find_libraries
}

command_validate() {
  local arguments words=() pictures=()
  while (($#)); do
    case $1 in
      --svg | --svg=)
        [[ $1 == --svg && -n ${2:-} ]] || stop 2 "--svg wants a value that is not empty: which folder"
        pictures=(--svg "$2")
        shift
        ;;
      --svg=*) pictures=(--svg "${1#*=}") ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  ((${#words[@]})) || stop 2 "which config? tools/strata validate configs/quickstart.yaml"
  ranks_as_key "${words[@]}"
  make_ready
  "$(binary trainer/check)" "${arguments[@]}" || exit
  exec "$(binary trainer/validate)" "${pictures[@]}" "${arguments[@]}"
}

command_generate() {
  (($#)) || stop 2 "of which run? tools/strata generate runs/quickstart --prompt 'In the beginning'"
  make_ready
  sample "$@"
}

# sample RUN OPTIONS...: the program reads bytes and ids. For a model of byte pairs, this function encodes the prompt
# and decodes the result.
sample() {
  local run=$1 arguments=() prompt='' has_prompt='' tokenizer ids
  tokenizer=$run/tokenizer.json
  if [[ ! -e $tokenizer ]]; then
    "$(binary tools/generate)" "$@"
    return
  fi
  while (($#)); do
    case $1 in
      --prompt) has_prompt=1 prompt=${2:-} && shift ;;
      --prompt=*) has_prompt=1 prompt=${1#*=} ;;
      *) arguments+=("$1") ;;
    esac
    shift || break
  done
  if [[ -z $has_prompt ]]; then
    "$(binary tools/generate)" "${arguments[@]}"
    return
  fi
  ids=$(python "$ROOT/tools/bpe_text.py" encode "$tokenizer" "$prompt") || exit
  [[ -n $ids ]] || stop 2 "the prompt is empty; give --prompt TEXT with one token at least"
  # shellcheck disable=SC2086
  ids=$("$(binary tools/generate)" "${arguments[@]}" --prompt-ids $ids) || exit
  python "$ROOT/tools/bpe_text.py" decode "$tokenizer" <<<"$ids"
}

command_export() {
  (($# >= 2)) || stop 2 "which run, and to where? tools/strata export runs/quickstart FOLDER [--format hf|timm]"
  make_ready
  exec "$(binary tools/export)" "$@"
}

command_import() {
  (($# >= 2)) || stop 2 "which folder of Hugging Face or timm, and to where? tools/strata import HF_FOLDER FOLDER"
  make_ready
  exec "$(binary tools/import)" "$@"
}

command_levels() {
  make_ready
  exec "$(binary tools/levels)" "$@"
}
