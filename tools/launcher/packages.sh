# SPDX-License-Identifier: MIT
# packages: what a configuration needs of level aot_inductor, compiled before training; nothing of it while training.

command_packages() {
  (($#)) || stop 2 "which config? tools/strata packages configs/quickstart.yaml"
  is_built || { setup && build; }
  check_config "$@"
  make_packages "$@"
}

# make_packages CONFIG OVERRIDES...: does nothing unless the level is named anywhere, and nothing for what is there.
make_packages() {
  names_level_aot_inductor "$@" || return 0
  local architecture=x86-64-v3 arguments=() key
  has_gpu && architecture=sm_90
  for key in precision.compute precision.reduce model.type model.family model.width model.heads model.key_value_heads model.feed_forward model.vocabulary model.classes; do
    arguments+=("--value" "$key=$(config_value "$key" "$@")")
  done
  find_libraries
  python "$ROOT/tools/aot_inductor/make_for_config.py" "${arguments[@]}" --architecture "$architecture" --root "$ROOT" \
    --built "$(dirname "$(binary kernels/cpu_packages)")" --output "$(packages_folder)" ||
    stop 70 "the packages of level aot_inductor could not be made; the words of the compiler are above"
}

packages_folder() { echo "${STRATA_PACKAGES:-$CACHE/packages}"; }

names_level_aot_inductor() { "$(binary trainer/check)" --resolved "$@" | grep -Eq '[:, {]aot_inductor\b'; }
