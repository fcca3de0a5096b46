# SPDX-License-Identifier: MIT
# The commands that run one program with one process.

# Sets up, builds and finds the libraries. `check` checks a config before that, because it needs none of them.
make_ready() {
  setup
  build
  find_libraries
}

command_validate() {
  local arguments words=() pictures=() timeline=() promises='' promise_options=() value beside
  while (($#)); do
    case $1 in
      --svg | --svg=*) take_value 'which folder' "$@" && pictures=(--svg "$value") && shift "$beside" ;;
      --memory-timeline | --memory-timeline=*) take_value 'which file' "$@" && timeline=(--memory-timeline "$value") && shift "$beside" ;;
      --promise) promises=1 ;;
      --times | --times=* | --json | --json=*) take_value 'which file' "$@" && promise_options+=("${1%%=*}=$value") && shift "$beside" ;;
      --latency | --latency=*) take_value 'how many microseconds' "$@" && promise_options+=("--latency=$value") && shift "$beside" ;;
      --bandwidth | --bandwidth=*) take_value 'how many GB/s' "$@" && promise_options+=("--bandwidth=$value") && shift "$beside" ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  ((${#words[@]})) || stop 2 "which config? tools/strata validate configs/quickstart.yaml"
  [[ -n $promises || ${#promise_options[@]} == 0 ]] || stop 2 "${promise_options[0]%%=*} is an option of --promise; tools/strata validate CONFIG --promise"
  ranks_as_key "${words[@]}"
  make_ready
  "$(binary trainer/check)" "${arguments[@]}" || exit
  [[ -n $promises ]] || exec "$(binary trainer/validate)" "${pictures[@]}" "${timeline[@]}" "${arguments[@]}"
  "$(binary trainer/validate)" "${pictures[@]}" "${timeline[@]}" "${arguments[@]}" || exit
  say_promise "${arguments[@]}"
}

command_generate() {
  (($#)) || stop 2 "of which run? tools/strata generate runs/quickstart --prompt 'In the beginning'"
  make_ready
  sample "$@"
}

# sample RUN OPTIONS...: the program reads bytes and ids. If there is a tokenizer, a script encodes and decodes for it.
sample() {
  if may_have_tokenizer "$1"; then
    python "$ROOT/tools/text/generate_text.py" "$(binary tools/generation/generate)" "$@"
  else
    "$(binary tools/generation/generate)" "$@"
  fi
}

# may_have_tokenizer RUN: the data had one, or the run began with weights, which may have one.
may_have_tokenizer() {
  local resolved=$1/resolved.yaml
  [[ -e $resolved ]] && { [[ -e $1/tokenizer.json ]] || ! grep -q '^  initial_weights: ""' -- "$resolved"; }
}

command_export() {
  (($# >= 2)) || stop 2 "which run, and to where? tools/strata export runs/quickstart FOLDER [--format hf|timm]"
  make_ready
  exec "$(binary tools/weights/export)" "$@"
}

command_sensitivity() {
  (($#)) || stop 2 "of which run? tools/strata sensitivity runs/quickstart [--formats mxfp8,nvfp4]"
  make_ready
  exec "$(binary tools/sensitivity/sensitivity)" "$@"
}

# It reads files only, so that nothing is built.
command_compare() {
  (($# >= 2)) || stop 2 "what with what? tools/strata compare A B: two runs, two files of bench --json, two plans, or two checkpoints"
  setup
  python -B "$ROOT/tools/compare/main.py" "$@"  # files of bytecode would count as changed sources
}

# It runs this launcher for what it measures.
command_advise() {
  local arguments
  (($#)) || stop 2 "on which config? tools/strata advise configs/quickstart.yaml [--run RUN] [--apply]; or on which model of PyTorch? tools/strata advise --torch model.pt2 [--measure]"
  if [[ " $*" == *" --torch"* ]]; then
    advise_on_torch "$@"
    return
  fi
  ranks_as_key "$@"
  make_ready
  exec "$(python_program)" -B "$ROOT/tools/advise/main.py" "$ROOT/tools/strata" "${arguments[@]}"
}

# advise_on_torch OPTIONS...: levels are timed only with --measure, and only then their packages are built.
advise_on_torch() {
  make_ready
  if [[ " $* " == *" --measure "* ]] && has_packages; then build_packages; fi
  exec "$(python_program)" -B "$ROOT/tools/advise/torch_main.py" "$(binary tools/explain/op_facts)" "$(binary tools/bench/kernels/bench_kernels)" "$@"
}

# Standard Python and dygraphs suffice, so nothing is built. Without -B a folder of bytecode would count as a changed source.
command_report() {
  (($#)) || stop 2 "of which run? tools/strata report runs/quickstart [--output report.html] [--watch]"
  [[ -e ${STRATA_DYGRAPHS:-/usr/share/javascript/dygraphs}/dygraph.min.js ]] || setup
  exec python3 -B "$ROOT/tools/report/report.py" "$@"
}

# The client is not among the wheels, so this is the Python of the user and not of the checkout.
command_follow() {
  (($#)) || stop 2 "which run? tools/strata follow runs/quickstart --to wandb|mlflow"
  exec "${STRATA_PYTHON:-python3}" -B "$ROOT/tools/follow/main.py" "$@"
}

command_import() {
  (($# >= 2)) || stop 2 "which folder of Hugging Face or timm, and to where? tools/strata import HF_FOLDER FOLDER"
  make_ready
  exec "$(binary tools/weights/import)" "$@"
}

command_levels() {
  make_ready
  exec "$(binary tools/levels)" "$@"
}

command_explain() {
  local op_facts
  is_checkout || stop 2 "this is an unpacked archive; tools/strata explain reads the sources of a checkout"
  if [[ "$*" == --patterns ]]; then
    setup
    python -B "$ROOT/tools/explain/patterns.py" "$ROOT"
    return
  fi
  make_ready
  if [[ "$*" == --page ]]; then
    op_facts=$("$(binary tools/explain/op_facts)" --device cpu) || exit
    python -B "$ROOT/tools/explain/page.py" "$ROOT" <<<"$op_facts"
    return
  fi
  op_facts=$("$(binary tools/explain/op_facts)" "$@") || exit
  python -B "$ROOT/tools/explain/explain.py" "$ROOT" "$ROOT/bazel-bin" <<<"$op_facts"
}

# claims check starts tools/strata again for each command, which builds what the command needs. With exec a signal reaches
# the program that ends these commands.
command_claims() {
  setup
  exec "$(python_program)" -B "$ROOT/tools/claims/main.py" "$@"
}
