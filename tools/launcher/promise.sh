# SPDX-License-Identifier: MIT
# measure, and validate --promise: times of this machine, and what a run will take.

promise_tool() { python3 -B "$ROOT/tools/promise/promise.py" "$@" --folder "$CACHE/times"; }

# ranks_here RANKS FACTS: prints how many ranks of a run this machine can start: one for each core or GPU, and no more than RANKS.
ranks_here() {
  local here
  if grep -q '"is_gpu":true' "$2"; then
    here=$(gpus_here)
  else
    here=$(env -u OMP_NUM_THREADS nproc)
  fi
  echo $((here < 1 ? 1 : here < $1 ? here : $1))
}

# measure_part PROGRAM ARGUMENTS...: the ranks of this machine run the program; its words are not for the user.
measure_part() { run_ranks "$here" '' '' "$@" >/dev/null; }

command_measure() {
  local arguments of_config times=() calls here short
  (($#)) && [[ $1 != -* && $1 != *=* ]] || set -- "$ROOT/configs/quickstart.yaml" "$@"
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  arguments=()
  while (($#)); do
    case $1 in
      --times)
        [[ -n ${2:-} ]] || stop 2 "--times wants a file"
        times=(--times "$2")
        shift
        ;;
      --times=) stop 2 "--times wants a file" ;;
      --times=*) times=("$1") ;;
      -*) stop 2 "measure has no option $1; tools/strata measure [CONFIG] [--ranks N] [--times FILE] [KEY=VALUE ...]" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  take_config "of which config? tools/strata measure [CONFIG] [--ranks N] [--times FILE] [KEY=VALUE ...]"
  make_ready
  ask trainer/check "${of_config[@]}"
  plan_for_best "${of_config[@]}"
  calls=$(binary tools/promise/call_times)
  make_temporary_folder
  "$calls" "${arguments[@]}" >"$temporary/facts" || exit
  here=$(ranks_here "${facts[run.ranks]}" "$temporary/facts")
  say "measuring ops, collectives and steps with $here rank(s) of this machine"
  measure_part "$calls" "${arguments[@]}" --measure "$temporary/lines" || end_failed "$?" ''
  # Real steps of few layers tell what is between the ops. If the configuration cannot be made so short, that stays unknown.
  # Ops and steps take turns, so that a machine that becomes slower changes both.
  mapfile -t short < <(promise_tool short --facts "$temporary/facts" --ranks "$here")
  for _ in 1 2 3; do
    measure_part "$calls" "${arguments[@]}" "${short[@]}" --measure "$temporary/lines" &&
      TMPDIR=$temporary measure_part "$(binary tools/bench_step)" "${arguments[@]}" "${short[@]}" --json "$temporary/steps" || break
  done
  promise_tool record --lines "$temporary/lines" --steps "$temporary/steps" "${times[@]}"
}

# say_promise CONFIG [KEY=VALUE ...]: `of_promise` are the options of promise.py.
say_promise() {
  make_temporary_folder
  "$(binary tools/promise/call_times)" "$@" >"$temporary/facts" || exit
  echo
  promise_tool say --facts "$temporary/facts" "${of_promise[@]}"
}
