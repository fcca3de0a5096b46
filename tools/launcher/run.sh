# SPDX-License-Identifier: MIT
# The commands that run one program of one process.

# Sets up, builds and finds the libraries; a config is checked by `check`, which needs none of them, before that.
make_ready() {
  setup
  build
  find_libraries
}

command_validate() {
  (($#)) || stop 2 "which config? tools/strata validate configs/quickstart.yaml"
  is_built || { setup && build; }
  exec "$(binary trainer/check)" --validate "$@"
}

command_generate() {
  (($#)) || stop 2 "of which run? tools/strata generate runs/quickstart --prompt 'In the beginning'"
  make_ready
  exec "$(binary trainer/generate)" "$@"
}

command_export() {
  (($# == 2)) || stop 2 "which run, and to where? tools/strata export runs/quickstart FOLDER"
  make_ready
  exec "$(binary tools/export)" "$@"
}

command_levels() {
  make_ready
  exec "$(binary tools/levels)"
}
