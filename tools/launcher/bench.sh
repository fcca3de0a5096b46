# SPDX-License-Identifier: MIT
# bench, plan and profile: the speed of the levels of each op, alone and for one model, and of whole modules; the speed
# of a whole training step, at one level or at each, of generation and of readers; and a profile of a step.

command_bench() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    kernels) bench_kernels "$@" ;;
    modules) bench_modules "$@" ;;
    step) bench_step "$@" ;;
    levels) bench_levels "$@" ;;
    generate) bench_generate "$@" ;;
    images) bench_images "$@" ;;
    neighbors) bench_neighbors "$@" ;;
    flags) bench_flags ;;
    *) stop 2 "what is to be timed? tools/strata bench kernels, bench modules, bench step CONFIG, bench levels CONFIG, bench generate CONFIG, bench images or bench neighbors CONFIG; or bench flags, for a library of your own; tools/strata help has their options" ;;
  esac
}

bench_kernels() {
  make_ready
  build_packages
  exec "$(binary tools/bench/kernels/bench_kernels)" "$@"
}

# Prints the options of the compiler for a library that bench kernels --library loads.
bench_flags() {
  is_checkout || stop 2 "an unpacked archive has no headers for a library; compile it in a checkout of the same version"
  setup
  exec "$(python_program)" "$ROOT/tools/bench/kernels/candidate_flags.py"
}

bench_modules() {
  make_ready
  build_packages
  exec "$(binary tools/bench/bench_modules)" --configs "$ROOT/configs" "$@"
}

bench_generate() {
  make_ready
  exec "$(binary tools/bench/bench_generate)" "$@"
}

bench_images() {
  make_ready
  exec "$(binary tools/bench/images/bench_images)" "$@"
}

bench_neighbors() {
  make_ready
  exec "$(binary tools/bench/bench_neighbors)" "$@"
}

# take_config QUESTION: moves the config and its overrides from `arguments` into `config_words`.
take_config() {
  local argument
  [[ ${#arguments[@]} -gt 0 && ${arguments[0]} != *=* && ${arguments[0]} != -* ]] || stop 2 "$1"
  config_words=("${arguments[0]}")
  for argument in "${arguments[@]:1}"; do
    if [[ $argument == *=* && $argument != -* ]]; then config_words+=("$argument"); fi
  done
}

bench_step() {
  local arguments config_words
  ranks_as_key "$@"
  take_config "of which config? tools/strata bench step CONFIG [--ranks N] [--warm-up N] [--steps N] [--document-tokens N] [--json FILE] [KEY=VALUE ...]"
  make_ready
  ask trainer/check "${config_words[@]}"
  plan_for_best "${config_words[@]}"
  run_ranks "${facts[run.ranks]}" '' '' "$(binary tools/bench/bench_step)" "${arguments[@]}" || end_failed "$?" ''
}

# Runs bench_step once for each level, so that none has memory or caches of another. A level that disagrees with aten is
# not timed, and the others are.
bench_levels() {
  local arguments config_words words=() codes=() json=() level packages=1 code value beside
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  while (($#)); do
    case $1 in
      --json | --json=*) take_value 'which file' "$@" && json=(--json "$value") && shift "$beside" ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  arguments=("${words[@]}")
  take_config "of which config? tools/strata bench levels CONFIG [--ranks N] [--warm-up N] [--steps N] [--document-tokens N] [--json FILE] [KEY=VALUE ...]; there are $(shipped_configs)"
  [[ -e ${config_words[0]} ]] || stop 2 "there is no config ${config_words[0]}; there are $(shipped_configs)"
  make_ready
  ask trainer/check "${config_words[@]}"
  (make_packages all "${config_words[@]}") || packages=''
  make_temporary_folder
  for level in aten torchscript aot_inductor triton cuda best; do
    say "level $level"
    arguments=("${words[@]}" --level "$level" --json "$temporary/rows")
    code=0
    if [[ $level == aten ]]; then
      run_step_of_level || end_failed "$?" ''
    elif [[ $level != best ]]; then
      arguments+=(--aten "$temporary/rows")
      run_step_of_level || code=$?
    elif [[ -n $packages ]]; then
      arguments+=(--aten "$temporary/rows" 'kernels={default: best}')
      facts[kernels.default]=best facts[kernels.plan]=''
      plan_for_best "${config_words[@]}" 'kernels={default: best}'
      run_step_of_level || code=$?
    else
      echo '{"level": "best", "not_timed": "a plan needs packages of level aot_inductor, which could not be made"}' >>"$temporary/rows"
    fi
    codes+=("$level=$code")
  done
  python "$ROOT/tools/bench/print_level_rows.py" "$temporary/rows" "${json[@]}" "${codes[@]}"
}

run_step_of_level() { run_ranks "${facts[run.ranks]}" '' '' "$(binary tools/bench/bench_step)" "${arguments[@]}" >/dev/null; }

shipped_configs() { (cd "$ROOT" && echo configs/*.yaml); }

command_profile() {
  local output='' arguments config_words value beside
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  arguments=()
  while (($#)); do
    case $1 in
      --output | --output=*) take_value 'which folder' "$@" && output=$value && shift "$beside" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  take_config "of which config? tools/strata profile CONFIG [--ranks N] [--output FOLDER] [--profile-steps N] [KEY=VALUE ...]"
  [[ -n $output ]] || output=runs/profile-$(basename "${config_words[0]}" .yaml)
  bench_step "${arguments[@]}" --profile "$output"
  say "the profile is in $output/profile: tables, JSON lines, and traces for Perfetto"
}

command_plan() {
  local arguments config_words
  ranks_as_key "$@"
  take_config "of which config? tools/strata plan CONFIG [--ranks N] [--output FILE] [KEY=VALUE ...]"
  make_ready
  ask trainer/check "${config_words[@]}"
  make_packages_for_plan "${config_words[@]}"
  "$(binary tools/plan/plan_kernels)" "${arguments[@]}" || exit
  say "a run of this configuration uses it with kernels.default=best; one that --output names, with kernels.plan=FILE besides"
}
