# SPDX-License-Identifier: MIT
# replay: trains a step of a run again and compares it with the run's ledger, or runs a layer alone that it has saved.

usage_of_replay() {
  echo "tools/strata replay RUN --step N [--from N] [--locate] [--ranks N] [KEY=VALUE ...]," \
    "replay RUN --at-nonfinite [--step N] [--from N] [--ranks N] [KEY=VALUE ...], or replay RUN/nonfinite-step-N [KEY=VALUE ...]"
}

command_replay() {
  local arguments config_words changes=('fault={kind: none}')
  ranks_as_key "$@"
  take_config "of which run? $(usage_of_replay)"
  local run=${config_words[0]}
  [[ -f $run/resolved.yaml ]] || stop 2 "$run is not the folder of a run: it has no resolved.yaml; $(usage_of_replay)"
  # A saved layer runs on one rank. The program has the same values, because other programs do not start it.
  [[ ! -f $run/nonfinite.json ]] || changes+=(run.ranks=1 sharding.strategy=none sharding.shard_ranks=0)
  config_words[0]=$run/resolved.yaml
  make_ready
  # The program itself reads the fault, which a replay without --locate and --at-nonfinite leaves out.
  ask trainer/check "${config_words[@]}" "${changes[@]}"
  make_packages "${facts[packages.ops]}" "${config_words[@]}" "${changes[@]}"
  run_ranks "${facts[run.ranks]}" '' '' "$(binary tools/replay/replay)" "${arguments[@]}" || end_failed "$?" ''
}
