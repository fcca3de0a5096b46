# SPDX-License-Identifier: MIT
# help COMMAND, COMMAND --help: prints the part of the `help` text that belongs to one command.

asks_for_help() {
  local word
  for word in "$@"; do [[ $word == --help || $word == -h ]] && return; done
  return 1
}

# command_help [COMMAND [WORDS...]]: adds the help of the command's own program, if that is built. Only train --help
# sets up and builds, because no other source has the keys.
command_help() {
  (($#)) || { help && return; }
  local program='' lines
  lines=$(lines_of "$1")
  [[ -n $lines ]] || refuse_command "$1"
  case $1-${2:-} in
    train-*) command_train --help ;;
    prepare-text) [[ -e $ROOT/.venv ]] && python "$ROOT/tools/text/prepare_text.py" --help && exit ;;
    advise---torch*) [[ -e $ROOT/.venv ]] && python -B "$ROOT/tools/advise/torch_main.py" --help && exit ;;
    advise-*) [[ -e $ROOT/.venv ]] && python -B "$ROOT/tools/advise/main.py" --help && exit ;;
    compare-*) [[ -e $ROOT/.venv ]] && python -B "$ROOT/tools/compare/main.py" --help && exit ;;
    generate-*) program=tools/generation/generate ;;
    export-* | import-*) program=tools/weights/$1 ;;
    plan-*) program=tools/plan/plan_kernels ;;
    replay-*) program=tools/replay/replay ;;
    sensitivity-*) program=tools/sensitivity/sensitivity ;;
    bench-kernels) program=tools/bench/kernels/bench_kernels ;;
    bench-images) program=tools/bench/images/bench_images ;;
    bench-generate | bench-modules | bench-step) program=tools/bench/${1}_$2 ;;
  esac
  if [[ -n $program ]] && is_built; then
    find_libraries
    exec "$(binary "$program")" --help
  fi
  echo "$lines"
}

refuse_command() {
  local meant
  # shellcheck disable=SC2046
  meant=$(nearest "$1" $(help | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p'))
  stop 2 "there is no command '$1'; ${meant:+did you mean '$meant'? }tools/strata help lists them"
}

# lines_of COMMAND: prints the lines of the `help` text for this command.
lines_of() {
  help | awk -v command="$1" '/^  [a-z]/ { inside = $1 == command } /^[^ ]/ { inside = 0 } inside'
}
