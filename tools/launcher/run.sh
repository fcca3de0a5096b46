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

# text_tokens ACTION RUN [TEXT|FILE]: see the program. `chat` has its option.
text_tokens() { python "$ROOT/tools/text_tokens.py" "${chat[@]}" -- "$@"; }

# sample RUN OPTIONS...: the program reads bytes and ids. If the run has a tokenizer, this function encodes prompts and
# decodes results.
sample() {
  local run=$1 arguments=() chat=() option='' prompt='' words ids
  if [[ ! -e $run/tokenizer.json ]]; then
    "$(binary tools/generate)" "$@"
    return
  fi
  while (($#)); do
    case $1 in
      --prompt | --prompts) option=$1 prompt=${2:-} && shift ;;
      --prompt=* | --prompts=*) option=${1%%=*} prompt=${1#*=} ;;
      --chat) chat=(--chat) ;;
      *) arguments+=("$1") ;;
    esac
    shift || break
  done
  # The words are numbers and names of options.
  # shellcheck disable=SC2086
  case $option in
    --prompt)
      words=$(text_tokens encode "$run" "$prompt") || exit
      ids=$("$(binary tools/generate)" "${arguments[@]}" $words) || exit
      text_tokens decode "$run" "$prompt" <<<"$ids"
      ;;
    --prompts)
      make_temporary_folder
      words=$(text_tokens stops "$run") && text_tokens encode-lines "$run" "$prompt" >"$temporary/prompts" || exit
      "$(binary tools/generate)" "${arguments[@]}" --prompts "$temporary/prompts" $words >"$temporary/results" || exit
      text_tokens decode-lines "$run" "$prompt" <"$temporary/results"
      ;;
    *)
      ((${#chat[@]} == 0)) || stop 2 "--chat is for --prompt TEXT or --prompts FILE"
      "$(binary tools/generate)" "${arguments[@]}"
      ;;
  esac
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
