# SPDX-License-Identifier: MIT
# bench and plan: how fast the levels of each op are, alone and for one model.

command_bench() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    kernels) bench_kernels "$@" ;;
    *) stop 2 "what is to be timed? tools/strata bench kernels [--op OP] [--level LEVEL] [--dtype bf16] [--config CONFIG] [--json FILE] [--svg FILE]" ;;
  esac
}

bench_kernels() {
  make_ready
  exec "$(binary tools/bench/bench_kernels)" "$@"
}

command_plan() {
  (($#)) || stop 2 "of which config? tools/strata plan CONFIG [--output FILE] [KEY=VALUE ...]"
  make_ready
  "$(binary tools/bench/plan_kernels)" "$@" || exit
  say "a run uses it with kernels.default=best kernels.plan=FILE"
}
