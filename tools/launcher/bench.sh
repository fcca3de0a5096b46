# SPDX-License-Identifier: MIT
# bench, plan and profile: how fast the levels of each op are, alone and for one model, how fast a whole training step
# is, and where its time goes.

command_bench() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    kernels) bench_kernels "$@" ;;
    step) bench_step "$@" ;;
    images) bench_images "$@" ;;
    *) stop 2 "what is to be timed? tools/strata bench kernels, bench step CONFIG or bench images; tools/strata help has their options" ;;
  esac
}

bench_kernels() {
  make_ready
  build_packages
  exec "$(binary tools/bench/bench_kernels)" "$@"
}

bench_images() {
  make_ready
  exec "$(binary tools/bench/bench_images)" "$@"
}

bench_step() {
  local arguments=() ranks
  (($#)) || stop 2 "of which config? tools/strata bench step CONFIG [--ranks N] [--warm-up N] [--steps N] [--json FILE] [KEY=VALUE ...]"
  while (($#)); do
    case $1 in
      --ranks) arguments+=("run.ranks=${2:?--ranks wants a number}") && shift ;;
      --ranks=*) arguments+=("run.ranks=${1#*=}") ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  make_ready
  local overrides=() argument
  for argument in "${arguments[@]:1}"; do [[ $argument == *=* && $argument != -* ]] && overrides+=("$argument"); done
  check_config "${arguments[0]}" "${overrides[@]}"
  ranks=$(config_value run.ranks "${arguments[0]}" "${overrides[@]}")
  run_ranks "$ranks" '' /nonexistent "$(binary tools/bench_step)" "${arguments[@]}"
}

command_profile() {
  local config=${1:-} output='' arguments=()
  [[ -n $config && $config != -* && $config != *=* ]] ||
    stop 2 "of which config? tools/strata profile CONFIG [--ranks N] [--output FOLDER] [--profile-steps N] [KEY=VALUE ...]"
  output=runs/profile-$(basename "$config" .yaml)
  while (($#)); do
    case $1 in
      --output) output=${2:?--output wants a folder} && shift ;;
      --output=*) output=${1#*=} ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  bench_step "${arguments[@]}" --profile "$output"
  say "the profile is in $output/profile: tables, JSON lines, and traces for Perfetto"
}

command_plan() {
  (($#)) || stop 2 "of which config? tools/strata plan CONFIG [--output FILE] [KEY=VALUE ...]"
  make_ready
  local of_config=("$1") argument
  for argument in "${@:2}"; do [[ $argument == *=* && $argument != -* ]] && of_config+=("$argument"); done
  check_config "${of_config[@]}"
  make_packages all "${of_config[@]}"
  "$(binary tools/bench/plan_kernels)" "$@" || exit
  say "a run uses it with kernels.default=best kernels.plan=FILE"
}
