# SPDX-License-Identifier: MIT
# run.restarts: starts a run again from its newest checkpoint, after a failure that may not come again.

# Exit codes of such failures: communication or a hang, an internal error, a rank that was killed, a crash. What a
# configuration, data, storage, numbers or memory have ended would end again.
readonly CODES_TO_RESTART='7 70 137 139'
# Without this limit a fault that strikes after each checkpoint would be repeated for ever. One fault a day takes 2.7
# years to reach it.
readonly MOST_RESTARTS=1000
readonly LONGEST_PAUSE=60  # seconds

# run_until_done HOSTS FOLDER CONFIG [KEY=VALUE ...]: returns if the run succeeded, otherwise exits with its code. The
# functions below use these variables.
run_until_done() {
  local hosts=$1 hosts_now=$1 ranks=${facts[run.ranks]} ranks_now=${facts[run.ranks]} folder=$2 config=("${@:3}")
  local wanted=${facts[run.restarts]} in_a_row=0 in_all=0 known newest code started waiting_for=() trap_after=''
  ((wanted == 0)) || trap_after=stop_waiting
  known=$(newest_checkpoint)
  while true; do
    code=0 started=$(date +%s)
    start_run || code=$?
    if ((code == 0)); then break; fi
    ((wanted > 0)) && [[ " $CODES_TO_RESTART " == *" $code "* ]] || end_failed "$code" "$folder"
    # A new checkpoint starts the count anew, so that one fault a day never ends a run of weeks.
    newest=$(newest_checkpoint)
    [[ -z $newest || $newest == "$known" ]] || in_a_row=0
    known=$newest
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
    ((ranks_now == ranks)) || more+=("run.ranks=$ranks_now")
    # The first start was allowed to replace another run. A restart must never replace this one.
    [[ ${facts[run.overwrite]-} != true ]] || more+=(run.overwrite=false)
  fi
  run_ranks "$ranks_now" "$hosts_now" "$folder" "$(binary trainer/train)" "${config[@]}" "${more[@]}" || code=$?
  ((code == 0)) || end_left_ranks
  # A host may be lost while mpirun starts its daemons. On the first start it is the command that may be wrong.
  if ((code > LAST_SIGNAL && in_all > 0)); then code=7; fi
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
  local pause=$((in_a_row > 6 ? LONGEST_PAUSE : 1 << (in_a_row - 1))) cause=$why step=0
  if is_of_run "$folder/error.json" "$started"; then cause=$(cause_of_report); fi
  if [[ -n $newest ]]; then step=$((10#${newest##*/step-})); fi
  say "exit code $code${cause:+: $cause}; restart $in_a_row of $wanted ($in_all of $MOST_RESTARTS in all) in $pause s, from step $step"
  keep_report
  sleep "$pause" >/dev/null 2>&1 &
  waiting_for=("$!")
  wait "$!" || true
  waiting_for=()  # other processes will get these ids
}

# end_left_ranks: ends the ranks that mpirun has left behind, if it was killed. They would go on for 2 s, and hold the
# folder of the run meanwhile. They are in the session of mpirun, whose id no other process gets so soon.
end_left_ranks() {
  local stat fields session
  for stat in /proc/[0-9]*/stat; do
    { IFS= read -r fields <"$stat"; } 2>/dev/null || continue
    read -r _ _ _ session _ <<<"${fields##*) }"
    [[ $session != "$MPIRUN" ]] || kill -KILL "${stat//[!0-9]/}" 2>/dev/null || true
  done
}

# stop_waiting: ends the command when a signal comes between two starts. There is nothing to save, so the code is 75.
stop_waiting() {
  kill "${waiting_for[@]}" 2>/dev/null || true
  say "stopped on request; the same command goes on from the last checkpoint"
  exit 75
}

# newest_checkpoint: prints inode and path of the newest checkpoint, or nothing. The inode distinguishes it from an
# earlier one of the same step that was damaged or replaced.
newest_checkpoint() {
  local path step most=-1 newest=''
  for path in "$folder"/checkpoints/step-*; do
    step=${path##*/step-}
    if [[ $step =~ ^[0-9]{8,18}$ ]] && ((10#$step > most)); then most=$((10#$step)) newest=$path; fi
  done
  [[ -z $newest ]] || stat -c '%i %n' -- "$newest"
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
