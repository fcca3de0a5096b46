# SPDX-License-Identifier: MIT
# run.restarts: starts a run again from its newest checkpoint, after a failure that may not come again.

# Exit codes of such failures: communication or a hang, an internal error, a rank that was killed, a wrong access to memory
# (SIGSEGV). A run that ended because of its configuration, data, storage, numbers or memory would fail again.
readonly CODES_TO_RESTART='7 70 137 139'
# Without this limit a fault that strikes after each checkpoint would be repeated for ever. One fault a day takes 2.7
# years to reach it.
readonly MOST_RESTARTS=1000
readonly LONGEST_PAUSE=60  # seconds

# A restart waits for ranks of the start before that cannot be killed: 10 s for their end, and this many seconds for the
# lock of the folder. A start that finds the folder locked ends with 4, and nothing would start it again.
readonly SECONDS_FOR_THE_LOCK=120

# run_until_done HOSTS FOLDER CONFIG [KEY=VALUE ...]: returns if the run succeeded, otherwise exits with its code. The
# functions below use these variables.
run_until_done() {
  # shellcheck disable=SC2318
  local hosts=$1 hosts_now=$1 ranks=${facts[run.ranks]} ranks_now=${facts[run.ranks]} folder=$2 config=("${@:3}")
  local wanted=${facts[run.restarts]} in_a_row=0 in_all=0 known steps code before trap_after=''
  ((wanted == 0)) || trap_after=stop_waiting
  known=$(steps_of_checkpoints)
  while true; do
    code=0 before=$(reports_in "$folder")
    start_run || code=$?
    if ((code == 0)); then break; fi
    ((wanted > 0)) && [[ " $CODES_TO_RESTART " == *" $code "* ]] || end_failed "$code" "$folder"
    # A new checkpoint starts the count anew, so that one fault a day never ends a run of weeks.
    steps=$(steps_of_checkpoints)
    if has_new_step; then in_a_row=0; fi
    known=$steps
    if ((in_a_row == wanted || in_all == MOST_RESTARTS)); then give_up; fi
    ((++in_a_row, ++in_all))
    say_and_wait
  done
  trap - TERM HUP INT
}

# start_run: starts the ranks and returns the exit code of the run.
start_run() {
  local more=() code=0
  if ((in_all > 0)); then
    [[ -z $hosts ]] || choose_hosts || return 7
    wait_for_lock
    # The file of the configuration may have changed since. A restart must go on in the same folder and with the ranks
    # that mpirun starts, and never replace a run: only the first start was allowed to.
    more=("run.ranks=$ranks_now" "run.folder='${folder//\'/\'\'}'" run.overwrite=false)
  fi
  run_ranks "$ranks_now" "$hosts_now" "$folder" "$(binary trainer/train)" "${config[@]}" "${more[@]}" || code=$?
  ((code == 0)) || end_left_ranks
  # A host may be lost while mpirun starts its daemons: mpirun then ends with 1 or with a code above the codes of signals.
  # On the first start it is the command that may be wrong.
  if ((in_all > 0)); then
    ((code <= LAST_SIGNAL)) || code=7
    if [[ $code == 1 && -n $hosts ]] && ! has_begun "$folder" "$before"; then code=7; fi
  fi
  return "$code"
}

give_up() {
  if ((in_a_row == wanted)); then
    say "no restart any more: $wanted in a row, as many as run.restarts allows, have made no new checkpoint"
  else
    say "no restart any more: there were $MOST_RESTARTS, which is the limit of a command"
  fi
  end_failed "$code" "$folder"
}

# say_and_wait: prints the line of a restart, keeps the report of the run that failed, and waits.
say_and_wait() {
  local pause=$((in_a_row > 6 ? LONGEST_PAUSE : 1 << (in_a_row - 1))) cause=$why step=${steps##*$'\n'}
  if is_of_run "$folder/error.json" "$before"; then cause=$(cause_of_report); fi
  say "exit code $code${cause:+: $cause}; restart $in_a_row of $wanted ($in_all of $MOST_RESTARTS in all) in $pause s, from step ${step:-0}"
  keep_report
  wait_for_program sleep "$pause"
}

# wait_for_program PROGRAM ARGUMENTS...: waits until it ends, or until a signal comes.
wait_for_program() {
  "$@" >/dev/null 2>&1 &
  wait "$!" || true
}

# wait_for_lock: waits until no process has the lock of the folder. A rank may hold it that hangs in a driver, or that
# runs on a host that cannot be reached.
wait_for_lock() {
  local lock=$folder/.lock code=0
  [[ -f $lock && ! -L $lock ]] || return 0
  flock --nonblock --conflict-exit-code 200 "$lock" true 2>/dev/null || code=$?
  ((code == 200)) || return 0  # some file systems have no locks
  say "$folder is still in use: waits at most $SECONDS_FOR_THE_LOCK s until the ranks of the start before have ended"
  wait_for_program flock --timeout "$SECONDS_FOR_THE_LOCK" "$lock" true
}

# end_left_ranks: ends the ranks that mpirun has left behind, if it was killed, and waits for their end, because they
# hold the folder of the run and memory of GPUs. They would go on for 2 s. They are in the session of mpirun, whose id no
# other process gets so soon.
end_left_ranks() {
  local stat fields state session found
  [[ -n $MPIRUN ]] || return 0
  for _ in {1..100}; do
    found=''
    for stat in /proc/[0-9]*/stat; do
      { IFS= read -r fields <"$stat"; } 2>/dev/null || continue
      read -r state _ _ session _ <<<"${fields##*) }"
      [[ $session == "$MPIRUN" && $state != [ZX] ]] || continue
      kill -KILL "${stat//[!0-9]/}" 2>/dev/null || true
      found=1
    done
    [[ -n $found ]] || return 0
    sleep 0.1
  done
}

# stop_waiting: ends the command when a signal comes between two starts. There is nothing to save, so the code is 75.
# Programs that have ended are not signaled, because other processes may have their ids.
stop_waiting() {
  local programs
  mapfile -t programs < <(jobs -pr)
  ((${#programs[@]} == 0)) || kill "${programs[@]}" 2>/dev/null || true
  say "stopped on request; the same command goes on from the last checkpoint"
  exit 75
}

# steps_of_checkpoints: prints the steps of the checkpoints, the newest last.
steps_of_checkpoints() {
  local path step
  for path in "$folder"/checkpoints/step-*; do
    step=${path##*/step-}
    [[ ! $step =~ ^[0-9]{8,18}$ ]] || echo "$((10#$step))"
  done | sort -n
}

# has_new_step: succeeds if a step of `steps` is not one of `known`. A checkpoint that was found damaged, or that was
# saved once more, is no progress.
has_new_step() {
  local step
  for step in $steps; do
    [[ $'\n'$known$'\n' == *$'\n'$step$'\n'* ]] || return 0
  done
  return 1
}

# cause_of_report: prints rank, step, phase and message of error.json as one line without control characters.
cause_of_report() {
  python -I -c '
import json, sys
with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    report = json.load(file)
place = "rank {rank}, step {step}, {phase}: ".format(**report) if report["phase"] else ""
text = " ".join((place + report["message"]).split())
print("".join(character if character.isprintable() else "?" for character in text[:300]))' "$folder/error.json" 2>/dev/null || true
}

# keep_report: renames error.json to error-1.json, or to the next number that is free. The next start removes error.json.
keep_report() {
  local report=$folder/error number=1
  [[ -e $report.json ]] || return 0
  while [[ -e $report-$number.json || -L $report-$number.json ]]; do ((++number)); done
  mv -nT -- "$report.json" "$report-$number.json" || say "$report.json could not be renamed to $report-$number.json"
}
