# SPDX-License-Identifier: MIT
# Starts the ranks with mpirun and handles signals.
#
# Bash scopes dynamically: watch_over and the functions that it or its traps call read and set `folder`, `hosts`,
# `program`, `asked` and `interrupted`, which are local in run_ranks.

# run_ranks RANKS HOSTS FOLDER PROGRAM ARGUMENTS...: returns the exit code of the run, and sets `why` if it failed and no
# rank has reported the cause. FOLDER is where the run saves its checkpoints. If it is empty, signals end the ranks at
# once. A run that was asked to stop ends the command.
run_ranks() {
  local ranks=$1 hosts=$2 folder=$3 flags cores here=$1 interrupted='' asked=''
  shift 3
  local program=${1##*/}
  program=${program::15}  # the kernel keeps 15 bytes of a name
  why=''
  command -v mpirun >/dev/null || stop 70 "mpirun is not installed; get it with: apt-get install openmpi-bin"
  cores=$(env -u OMP_NUM_THREADS nproc)
  # No rank reads stdin, and the daemon of Open MPI 4.1 may crash if it forwards some to a rank that has ended.
  flags=(-np "$ranks" --bind-to none --stdin none)
  if [[ -n $hosts ]]; then
    here=$(most_ranks_of_a_host "$hosts")
    if [[ -f $hosts ]]; then flags+=(--hostfile "$hosts"); else flags+=(-H "$hosts"); fi
  else
    # One machine needs only shared memory. Naming it saves 0.2 s of looking for networks at the start.
    export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader}
    flags+=(--oversubscribe)
  fi
  # When a rank has failed, mpirun waits 1 s before and 1 s after it ends the other ranks, even if there are none.
  # This setting is of one call: a restart may have more ranks.
  ((ranks > 1)) || local -x OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-0}
  ((EUID == 0)) && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # Ranks that share cores must not spin while they wait for each other.
  ((here > cores)) && export OMPI_MCA_mpi_yield_when_idle=1
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > here ? cores / here : 1))}
  pass_terminal_down
  for name in OMP_NUM_THREADS LD_LIBRARY_PATH "${!STRATA_@}" "${!NCCL_@}"; do
    [[ -n ${!name:-} ]] && flags+=(-x "$name")
  done
  set -f  # words of the flags are no patterns of file names
  # shellcheck disable=SC2206
  flags+=(${STRATA_MPIRUN_FLAGS:-})
  set +f

  local before kills code=0
  before=$(reports_in "$folder") kills=$(kills_for_memory)
  watch_over mpirun "${flags[@]}" "$@" || code=$?
  [[ -z $interrupted ]] || exit "$interrupted"
  case $code in
    0 | 130) ;;
    75) say "stopped on request; the same command goes on from the last checkpoint" ;;
    *)
      # A rank that calls _exit(0) reports no code, and mpirun makes it 1.
      [[ $KILLED_RANK =~ ^[0-9]+$ ]] && ((code == 1)) && code=7
      # mpirun ends with a code of its own when a host of a run is lost: with 205 in Open MPI 4.1.
      ((code > LAST_SIGNAL)) && { [[ -n $LOST_HOST ]] || has_begun "$folder" "$before"; } && code=7
      find_why "$code" "$folder" "$before" "$kills"
      ;;
  esac
  ((code == 0)) || [[ -z $asked ]] || end_failed "$code" "$folder"
  return "$code"
}

# kills_for_memory: prints how many processes the kernel of this machine has ended so far because memory ran out, also that of
# a cgroup.
kills_for_memory() { sed -n 's/^oom_kill //p' /proc/vmstat 2>/dev/null || true; }

readonly LAST_SIGNAL=192  # the exit code of a program that the last signal has ended: 128 + 64

# reports_in FOLDER: prints inode and times of error.json and resolved.yaml. A run that gets so far replaces them. Times are
# only compared, and not ordered, because the clock may be set back.
reports_in() { [[ -z $1 ]] || stat -c '%n %i %.9Y %.9Z' "$1"/{error.json,resolved.yaml} 2>/dev/null || true; }

# is_of_run FILE BEFORE: succeeds if the file is none of those that reports_in printed before the run.
is_of_run() { [[ -e $1 && $'\n'$2$'\n' != *$'\n'"$(stat -c '%n %i %.9Y %.9Z' "$1")"$'\n'* ]]; }

# has_begun FOLDER BEFORE: succeeds if rank 0 has claimed the folder, which it does when all ranks are connected.
has_begun() { [[ -n $1 ]] && is_of_run "$1/resolved.yaml" "$2"; }

# end_failed CODE FOLDER: prints why the run failed, unless a rank did, and exits with the code.
end_failed() {
  [[ -z $why ]] || say "$why${2:+; the same command goes on from the last checkpoint}"
  exit "$1"
}

# mpirun gives every rank a pseudo-terminal, so ranks cannot find out whether the output is a terminal. This passes the
# answer on.
pass_terminal_down() {
  unset STRATA_TERMINAL
  [[ -t 1 ]] && export STRATA_TERMINAL=1
  return 0
}

# This script waits until its standard input has no writer left. Then it ends process $1 with SIGTERM, and with SIGKILL
# 3 s later, and removes the folder $2.
readonly END_WITH_WRITER='trap "" INT TERM HUP; read -r; kill -TERM "$1" && sleep 3 && kill -KILL "$1"; rm -rf -- "$2"'

# watch_over MPIRUN...: runs mpirun and turns signals into a clean stop. SIGTERM to mpirun would kill the ranks within
# 10 ms. SIGUSR1 asks the ranks; they save and exit with 75. A second Ctrl-C ends everything at once, as does the first
# signal if nothing is saved. `interrupted` is then the exit code. `trap_after`, if it has a value, is the trap afterwards.
watch_over() {
  local code=0 ended output errors reader alive guard session
  MPIRUN=''
  if [[ -n $folder ]]; then
    trap 'ask_to_stop' TERM HUP
    trap 'interrupt' INT
  else
    trap 'end_ranks 143' TERM HUP
    trap 'end_ranks 130' INT
  fi
  session=$(new_temporary_folder) || exit
  WORDS_OF_MPIRUN=$session/words
  : >"$WORDS_OF_MPIRUN"
  exec {errors}> >(forward_messages) {output}>&1
  reader=$!
  # The process prints mpirun's process id, then its exit code, because `wait` returns another one if signals come
  # quickly. mpirun has a session of its own, because the terminal's Ctrl-C must reach only this shell. It has a folder
  # of its own for temporary files: Open MPI 4.1 removes the folder that all mpiruns of a user share, if it is empty,
  # when an mpirun starts and when one ends. Another mpirun that starts just then would fail. Ranks that a signal ends
  # do not delete their files, so this shell does.
  exec {ended}< <(
    trap : INT TERM HUP
    (echo "$BASHPID"; TMPDIR=$session exec setsid "$@" </dev/null >&"$output" 2>&"$errors" {output}>&- {errors}>&-) || code=$?
    echo "$code"
  )
  exec {errors}>&- {output}>&-
  read -r MPIRUN <&"$ended"
  if [[ -n $hosts ]]; then end_mpirun_alone {ended}<&- >/dev/null & fi
  # SIGKILL leaves this shell no time to end mpirun, so a guard process does it. The guard has a session of its own,
  # because SIGKILL may be sent to the whole process group.
  exec {alive}> >(exec setsid bash -c "$END_WITH_WRITER" guard "$MPIRUN" "$session" >/dev/null 2>&1)
  guard=$!
  # Forwards signals that came before mpirun was running.
  if [[ -n $interrupted ]]; then kill -TERM "$MPIRUN"; elif [[ -n $asked ]]; then ask_ranks; fi 2>/dev/null
  read -r code <&"$ended" || code=137
  kill -KILL "$guard" 2>/dev/null || true
  exec {ended}<&- {alive}>&-
  trap 'asked=1' TERM HUP INT  # The ranks have ended: a signal changes nothing but that nothing is started again.
  # Waits until the last writer has closed its end, so that all output is forwarded. A writer that a dead mpirun left is
  # not waited for.
  for _ in {1..20}; do
    kill -0 "$reader" 2>/dev/null || break
    sleep 0.05
  done
  KILLED_RANK=$(<"$WORDS_OF_MPIRUN") LOST_HOST=''
  [[ $KILLED_RANK == lost\ * ]] && LOST_HOST=${KILLED_RANK#lost } KILLED_RANK=''
  [[ $LOST_HOST != "$OTHER_HOSTS" || $code != 137 ]] || code=7
  rm -rf -- "$session" || true  # a rank that a dead mpirun left may still write there
  # shellcheck disable=SC2064
  [[ -z ${trap_after:-} ]] || trap "$trap_after" TERM HUP INT
  # A SIGUSR1 before the ranks had their handlers ended them. There was nothing to save yet, so the code is 75.
  [[ -n $asked && $code == 138 ]] && code=75
  return "$code"
}

# If the link to another host goes down, the ranks end by their watchdogs, and mpirun waits for the daemon there: for a
# quarter of an hour, until TCP gives the connection up. All ranks of a run end within seconds, so ranks that are gone here
# are gone there.
readonly SECONDS_ALONE=20 OTHER_HOSTS='other hosts'

# end_mpirun_alone: ends mpirun if the ranks of this machine ended SECONDS_ALONE ago. Runs in the background until mpirun
# has ended. Without ranks on this machine it does nothing.
end_mpirun_alone() {
  trap '' INT TERM HUP  # the ranks still save then
  local begun='' alone=0
  while sleep 1 && kill -0 "$MPIRUN" 2>/dev/null; do
    if pgrep -P "$MPIRUN" -x "$program" >/dev/null 2>&1; then
      begun=1 alone=0
    elif [[ -n $begun ]] && ((++alone == SECONDS_ALONE)); then
      say "the ranks of this machine have ended, and mpirun has waited $SECONDS_ALONE s for other hosts: it is ended"
      echo "lost $OTHER_HOSTS" >"$WORDS_OF_MPIRUN"
      kill -KILL "$MPIRUN" 2>/dev/null
    fi
  done
}

ask_to_stop() {
  [[ -n $asked ]] && return 0  # a bare return in a trap returns the status from before it
  asked=1
  say "asked to stop: saving after the next step"
  [[ -z $MPIRUN ]] || ask_ranks
}

# Asks the ranks of this host. All ranks stop if one of them is asked. mpirun forwards the signal to ranks elsewhere, but
# not every build of it does: Open MPI 4.1.6 was seen to drop it.
ask_ranks() { pkill -USR1 -P "$MPIRUN" -x "$program" 2>/dev/null || kill -USR1 "$MPIRUN" 2>/dev/null || true; }

interrupt() {
  if [[ -z $asked ]]; then
    ask_to_stop
    say "Ctrl-C once more stops without saving"
    return 0
  fi
  end_ranks 130
}

# end_ranks CODE: ends the ranks now, without saving. The command exits with CODE.
end_ranks() {
  [[ -n $folder || -n $interrupted ]] || say "stopped: nothing was saved, the same command begins anew"
  interrupted=$1
  [[ -n $MPIRUN ]] || return 0
  kill -TERM "$MPIRUN" 2>/dev/null || true
  for _ in {1..30}; do
    kill -0 "$MPIRUN" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$MPIRUN" 2>/dev/null || true
}

# The longest message of mpirun that is left out has about 20 lines between its two rows of dashes. mpirun writes a
# message at once, so a row of dashes that none follows within these seconds is from a rank.
readonly LINES_OF_A_MESSAGE=30 SECONDS_OF_A_MESSAGE=5

# mpirun's words about itself, which follow the message of a rank or of say_why.
readonly NOISE_OF_MPIRUN='^(mpirun: Forwarding signal [0-9]+ to job|\[[^]]+\] [0-9]+ more process(es)? ha(s|ve) sent help message .*|\[[^]]+\] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages)$'

# ends_ranks TEXT: succeeds if TEXT is a message of mpirun about the end of ranks. The rank that was killed is recorded,
# or the host that was lost, which is the cause of what follows. Text of a rank can hold such words, too, so they count
# only at the beginning.
ends_ranks() {
  if [[ $1 =~ ^ORTE\ has\ lost\ communication\ .*Remote\ daemon:\ [^$'\n']*\ on\ node\ ([[:alnum:]._:-]+) ]]; then
    echo "lost host ${BASH_REMATCH[1]}" >"$WORDS_OF_MPIRUN"
  elif [[ $(<"$WORDS_OF_MPIRUN") == lost\ * && $1 =~ ^mpirun\ (noticed|has\ exited) ]]; then
    return 0
  elif [[ $1 =~ ^mpirun\ noticed\ that\ process\ rank\ ([0-9]+)\ .*on\ node\ ([[:alnum:]._:-]+)\ exited\ on\ signal ]]; then
    echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}" >"$WORDS_OF_MPIRUN"
  elif [[ $1 =~ ^mpirun\ has\ exited\ due\ to\ process\ rank\ ([0-9]+) ]]; then
    echo "${BASH_REMATCH[1]}" >"$WORDS_OF_MPIRUN"
  else
    [[ $1 =~ ^(Primary\ job\ \ terminated|mpirun\ detected\ that\ one|MPI_ABORT\ was\ invoked) ]]
  fi
}

# Forwards the errors of the ranks. mpirun's own messages about the end of ranks are left out, because say_why explains
# it better. A row of dashes of a rank withholds no more than LINES_OF_A_MESSAGE, and not for long.
forward_messages() {
  trap '' INT TERM HUP
  local line begun='' block='' lines=0 ended='' limit status  # lines: of the block so far
  while true; do
    limit=() status=0
    ((lines == 0)) || limit=(-t "$SECONDS_OF_A_MESSAGE")
    IFS= read -r "${limit[@]}" line || status=$?
    line=$begun$line begun=''
    if ((status > 128)); then  # nothing came in time
      printf '%s\n' "$block" >&2
      lines=0 begun=$line
      continue
    fi
    ((status == 0)) || [[ -n $line ]] || break
    if [[ $line =~ ^-{70,}$ ]]; then
      if ((lines > 1)) && ends_ranks "${block#*$'\n'}"; then
        lines=0 ended=1
        continue
      fi
      # The row may be the last of a text or the first of a message.
      ((lines == 0)) || printf '%s\n' "$block" >&2
      lines=1 block=$line
    elif [[ $line =~ $NOISE_OF_MPIRUN ]]; then
      continue
    elif [[ -n $ended && $line == *' ORTE_ERROR_LOG: '* ]]; then
      # Before the end of ranks these lines are all that is said about some failures of a network. After it they are noise.
      continue
    elif ((lines > 0)); then
      block+=$'\n'$line
      ((++lines <= LINES_OF_A_MESSAGE)) && continue
      printf '%s\n' "$block" >&2
      lines=0
    else
      printf '%s\n' "$line" >&2
    fi
  done
  ((lines == 0)) || printf '%s\n' "$block" >&2
}

# find_why CODE FOLDER BEFORE KILLS: sets `why` unless a rank has reported the cause. A killed rank could not write
# error.json, so this function does. KILLS is what kills_for_memory printed at the start.
find_why() {
  local code=$1 report=$2/error.json who='a rank' where='' signal message
  [[ -n $2 ]] && is_of_run "$report" "$3" && return
  [[ -n $KILLED_RANK ]] && read -r who where <<<"$KILLED_RANK" && who="rank $who" where=${where:+ on $where}
  if ((code > 128 && code <= LAST_SIGNAL)); then
    signal=$(kill -l $((code - 128)))
    message="$who was killed$where by SIG$signal"
  elif [[ -n $LOST_HOST ]]; then
    message="the connection to $LOST_HOST was lost"
  elif [[ $KILLED_RANK =~ ^[0-9]+$ ]]; then
    message="$who left the run without a word, while the others went on"
  else
    return 0
  fi
  case ${signal:-} in
    KILL)
      if [[ $(kills_for_memory) == "$4" ]]; then
        message+=': by somebody, or by the kernel because memory ran out (dmesg knows)'
      else
        message+=': most likely by the kernel, because the memory of the host or of a cgroup ran out: it has ended a process for'
        message+=' that during the run (dmesg knows which)'
      fi
      ;;
    SEGV | BUS | ILL | FPE | ABRT) message+=': a fault in the program' ;;
  esac
  why=$message
  [[ $who == 'a rank' ]] && who=null
  write_report "$2" "$code" "${who#rank }" "$message"
}

# write_report FOLDER CODE RANK MESSAGE: writes error.json as ranks do. A message may have names of the user in it.
write_report() {
  local report=$1/error.json message=${4//[\"\\[:cntrl:]]/?}
  [[ -d $1 ]] || return 0
  # With -C (noclobber) no link is followed. A full disk must not change the exit code of the run.
  (
    set -C
    rm -f "$report.tmp"
    printf '{"code": %d, "rank": %s, "step": null, "phase": null, "message": "%s", "hint": "%s"}\n' "$2" "$3" "$message" \
      "run the same command again: it goes on from the last checkpoint" >"$report.tmp" && mv -fT "$report.tmp" "$report"
  ) || say "$report could not be written"
}
