# SPDX-License-Identifier: MIT
# demo: shows one idea of Strata by small runs. A demo starts tools/strata itself.

command_demo() {
  if (($#)); then
    setup
    build
  fi
  if [[ " $* " == *" --interactive "* ]]; then
    is_checkout || stop 2 "this is an unpacked archive; tools/strata demo --interactive works in a checkout"
    find_libraries
    if has_packages; then build_packages; fi
  fi
  exec python3 -B "$ROOT/tools/demo/main.py" "$@"  # files of bytecode would count as changed sources
}
