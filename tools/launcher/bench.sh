# SPDX-License-Identifier: MIT
# bench step: the time of a whole training step of a configuration.

command_bench() {
  local what=${1:-} arguments=() ranks
  (($#)) && shift
  [[ $what == step && $# -gt 0 ]] || stop 2 "what? tools/strata bench step CONFIG [--ranks N] [--warm-up N] [--steps N] [--json FILE] [KEY=VALUE ...]"
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
