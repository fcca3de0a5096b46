# SPDX-License-Identifier: MIT
# --hosts: how many ranks a machine has, and which machines a restart can use.

readonly SECONDS_TO_REACH_A_HOST=20 HOSTS_TRIED_AT_ONCE=16

# hosts_of HOSTS: prints a line for each machine of a hosts file or of a list a:2,b:2, with its number of ranks and its
# entry.
hosts_of() {
  local entry ranks
  while read -r entry || [[ -n $entry ]]; do
    entry=${entry%%#*} ranks=1
    [[ -n $entry ]] || continue
    if [[ $entry =~ [[:blank:]]slots[[:blank:]]*=[[:blank:]]*([0-9]+) || $entry =~ :([0-9]+)$ ]]; then ranks=${BASH_REMATCH[1]}; fi
    echo "$ranks $entry"
  done < <(if [[ -f $1 ]]; then cat "$1"; else tr ',' '\n' <<<"$1"; fi)
}

# most_ranks_of_a_host HOSTS: prints the largest number of ranks on one machine.
most_ranks_of_a_host() { hosts_of "$1" | awk '$1 > most { most = $1 } END { print (most > 0 ? most : 1) }'; }

# can_reach ENTRY: starts a program on the machine as mpirun starts ranks, with the same agent and networks. Replaces the
# process. mpirun reads a hosts file twice, so it cannot be a pipe. It has a folder of its own, as in watch_over.
can_reach() {
  local place=(-H "$1") own=$temporary/host-$BASHPID
  mkdir -p "$own"
  if [[ -f $hosts ]]; then
    place=(--hostfile "$own/hosts")
    echo "$1" >"${place[1]}"
  fi
  set -f  # words of the flags are no patterns of file names
  # shellcheck disable=SC2086
  TMPDIR=$own exec timeout --kill-after=3 "$SECONDS_TO_REACH_A_HOST" \
    mpirun -np 1 --stdin none "${place[@]}" ${STRATA_MPIRUN_FLAGS:-} true </dev/null >/dev/null 2>&1
}

# choose_hosts: sets hosts_now to the hosts that can be reached, and ranks_now to the largest number of ranks that they
# have and that the configuration allows. Fails, with the reason in `why`, if there is none. The other variables are
# those of run_until_done.
choose_hosts() {
  local all left=() started_for slots=0 gone='' most first entry i
  [[ -d ${temporary-} ]] || make_temporary_folder
  hosts_now=$hosts ranks_now=$ranks facts[run.ranks]=$ranks
  mapfile -t all < <(hosts_of "$hosts")
  for ((first = 0; first < ${#all[@]}; first += HOSTS_TRIED_AT_ONCE)); do
    started_for=()
    for entry in "${all[@]:first:HOSTS_TRIED_AT_ONCE}"; do
      can_reach "${entry#* }" &
      started_for+=("$!")
    done
    for i in "${!started_for[@]}"; do
      entry=${all[first + i]}
      if wait "${started_for[i]}"; then
        left+=("${entry#* }") slots=$((slots + ${entry%% *}))
      else
        entry=${entry#* } gone+=${gone:+, }${entry%%[[:blank:]:]*}
      fi
    done
  done
  [[ -n $gone ]] || return 0

  most=$((slots < ranks ? slots : ranks))
  for ((ranks_now = most; ranks_now > 0; --ranks_now)); do
    "$(binary trainer/check)" "${config[@]}" "run.ranks=$ranks_now" >/dev/null 2>&1 && break
  done
  if ((ranks_now == 0)); then
    why="$gone cannot be reached, and the configuration allows no number of ranks from 1 to $most"
    ((most > 0)) || why="$gone cannot be reached, and --hosts has no other"
    write_report "$folder" 7 null "$why"
    return 1
  fi
  say "$gone cannot be reached; goes on with $ranks_now of $ranks ranks on the other hosts"
  write_hosts "${left[@]}"
  facts[run.ranks]=$ranks_now
  make_packages "${facts[packages.ops]}" "${config[@]}" "run.ranks=$ranks_now"
}

# write_hosts ENTRIES...: sets hosts_now to these entries, as a hosts file or as a list, whichever `hosts` is.
write_hosts() {
  if [[ -f $hosts ]]; then
    hosts_now=$temporary/hosts
    printf '%s\n' "$@" >"$hosts_now"
  else
    local IFS=,
    hosts_now=$*
  fi
}
