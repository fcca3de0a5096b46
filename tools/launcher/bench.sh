# SPDX-License-Identifier: MIT
# bench and plan: how fast the levels of each op are, alone and for one model, and how fast a whole training step is.

command_bench() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    kernels) bench_kernels "$@" ;;
    step) bench_step "$@" ;;
    *) stop 2 "what is to be timed? tools/strata bench kernels, or bench step CONFIG; tools/strata help has their options" ;;
  esac
}

bench_kernels() {
  make_ready
  build_packages
  exec "$(binary tools/bench/bench_kernels)" "$@"
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
