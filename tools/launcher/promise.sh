# SPDX-License-Identifier: MIT
# measure, and validate --promise: times of this machine, and what a run will take.

promise_tool() { python3 -B "$ROOT/tools/promise/promise.py" "$@" --folder "$CACHE/times"; }

# runs_on_gpu FACTS: the file is what call_times has printed.
runs_on_gpu() { grep -q '"is_gpu":true' "$1"; }

# ranks_here RANKS FACTS: prints how many ranks of a run this machine can start: one for each core or GPU, and no more than RANKS.
ranks_here() {
  local here
  if runs_on_gpu "$2"; then
    here=$(gpus_here)
  else
    here=$(env -u OMP_NUM_THREADS nproc)
  fi
  echo $((here < 1 ? 1 : here < $1 ? here : $1))
}

# settings: the keys on which the time between ops depends, and the ops do not. They are in `facts`. There precision.linear.keep has the number
# of the last block; here it is `last`, because a run of more layers has the same settings.
settings() {
  local key value last=blocks.$((${facts[model.layers]} - 1))
  for key in cuda_graph run.deterministic precision.{reduce,linear.only,linear.keep} sparsity.{method,mask,only} optimizer.moving_average \
    sharding.{reshard_after_forward,prefetch,accumulate,gather,gather_format,sequence}; do
    value=${facts[$key]:-}
    value=${value//"$last,"/last,}
    printf '%s=%s ' "$key" "${value//"$last]"/last]}"
  done
}

# name_levels: adds the levels of a plan to `arguments` in place of `best`, because a plan is for one number of layers, and short runs have
# fewer. Needs `facts`; levels that the configuration names stay.
name_levels() {
  local op level
  [[ ${facts[kernels.default]} == best && -e ${facts[kernels.plan]} ]] || return 0
  arguments+=(kernels.default=aten 'kernels.plan=""')
  while read -r op level; do
    [[ -n ${facts[kernels.$op]:-} ]] || arguments+=("kernels.$op=$level")
  done < <(sed -n '/^levels:/,/^measured:/s/^  \([a-z_]*\): \([a-z_]*\)$/\1 \2/p' "${facts[kernels.plan]}")
}

# measure_part PROGRAM ARGUMENTS...: the ranks of this machine run the program; its words are not for the user.
measure_part() { run_ranks "$here" '' '' "$@" >/dev/null; }

command_measure() {
  local arguments config_words times=() calls here short turns steps run keys value beside
  (($#)) && [[ $1 != -* && $1 != *=* ]] || set -- "$ROOT/configs/quickstart.yaml" "$@"
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  arguments=()
  while (($#)); do
    case $1 in
      --times | --times=*) take_value 'which file' "$@" && times=("--times=$value") && shift "$beside" ;;
      -*) stop 2 "measure has no option $1; tools/strata measure [CONFIG] [--ranks N] [--times FILE] [KEY=VALUE ...]" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  take_config "of which config? tools/strata measure [CONFIG] [--ranks N] [--times FILE] [KEY=VALUE ...]"
  make_ready
  ask trainer/check "${config_words[@]}"
  plan_for_best "${config_words[@]}"
  name_levels
  calls=$(binary tools/promise/call_times)
  make_temporary_folder
  "$calls" "${arguments[@]}" >"$temporary/facts" || exit
  here=$(ranks_here "${facts[run.ranks]}" "$temporary/facts")
  say "measuring ops, collectives and steps with $here rank(s) of this machine"
  measure_part "$calls" "${arguments[@]}" --measure "$temporary/lines" || end_failed "$?" ''
  # Real steps of few layers tell what is between the ops. If the configuration cannot be made so short, that stays unknown.
  mapfile -t short < <(promise_tool short --facts "$temporary/facts" --ranks "$here")
  for run in "${!short[@]}"; do
    read -ra keys <<<"${short[run]}"
    "$calls" "${arguments[@]}" "${keys[@]}" >"$temporary/short-$run" &
  done
  wait
  # On CPUs ops and steps take turns, so that a machine that becomes slower changes both. A GPU has its clock after some steps.
  if runs_on_gpu "$temporary/facts"; then
    turns=(1) steps=(--warm-up 100 --steps 100)
  else
    turns=(1 2 3) steps=(--warm-up 5 --steps 15 --profile-steps 5)
  fi
  # How fast images are read was measured without steps, and these steps do not read.
  if grep -q '"feed":{' "$temporary/facts"; then steps+=(--same-batch); fi
  for run in "${!short[@]}"; do
    if [[ -s $temporary/short-$run ]]; then cat "$temporary/short-$run" >>"$temporary/short"; else turns=(); fi
  done
  for _ in "${turns[@]}"; do
    # Fewer ranks have larger shards, and their updates take other times. Other ops of short runs are the same as in the run.
    if ((${#turns[@]} > 1 || here < ${facts[run.ranks]})); then
      read -ra keys <<<"${short[0]}"
      measure_part "$calls" "${arguments[@]}" "${keys[@]}" --measure "$temporary/lines" || break
    fi
    for run in "${short[@]}"; do
      read -ra keys <<<"$run"
      measure_part "$(binary tools/bench/bench_step)" "${arguments[@]}" "${keys[@]}" "${steps[@]}" --json "$temporary/steps" || break 2
    done
  done
  promise_tool record --lines "$temporary/lines" --short "$temporary/short" --steps "$temporary/steps" --settings "$(settings)" "${times[@]}"
}

# say_promise CONFIG [KEY=VALUE ...]: `promise_options` are the options of promise.py.
say_promise() {
  local arguments=("$@")
  ask trainer/check "$@"
  if [[ ${facts[kernels.default]} == best && -z ${facts[kernels.plan]} ]]; then ask tools/plan/plan_kernels "$@"; fi  # where its plan is
  name_levels
  make_temporary_folder
  "$(binary tools/promise/call_times)" "${arguments[@]}" >"$temporary/facts" || exit
  echo
  promise_tool say --facts "$temporary/facts" --settings "$(settings)" "${promise_options[@]}"
}
