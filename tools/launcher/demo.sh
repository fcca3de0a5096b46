# SPDX-License-Identifier: MIT
# demo: shows one idea of Strata by small runs. A demo starts tools/strata itself.

command_demo() {
  if (($#)); then
    setup
    build
  fi
  exec python3 -B "$ROOT/tools/demo/main.py" "$@"  # files of bytecode would count as changed sources
}
