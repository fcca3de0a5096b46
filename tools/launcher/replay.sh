# SPDX-License-Identifier: MIT
# replay: trains a step of a run again and compares it with the run's ledger.

command_replay() {
  local arguments of_config usage='tools/strata replay RUN --step N [--from N] [--locate] [--ranks N] [KEY=VALUE ...]'
  ranks_as_key "$@"
  take_config "of which run? $usage"
  local run=${of_config[0]}
  [[ -f $run/resolved.yaml ]] || stop 2 "$run is not the folder of a run: it has no resolved.yaml; $usage"
  of_config[0]=$run/resolved.yaml
  make_ready
  # The program itself reads the fault, which it leaves out unless it is to locate one.
  ask trainer/check "${of_config[@]}" 'fault={do: none}'
  make_packages "${facts[packages.ops]}" "${of_config[@]}" 'fault={do: none}'
  run_ranks "${facts[run.ranks]}" '' '' "$(binary tools/replay)" "${arguments[@]}" || end_failed "$?" ''
}
