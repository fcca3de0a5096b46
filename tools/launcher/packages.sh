# SPDX-License-Identifier: MIT
# packages: what a configuration needs of level aot_inductor, compiled before training; nothing of it while training.

command_packages() {
  (($#)) || stop 2 "which config? tools/strata packages configs/quickstart.yaml"
  local arguments
  ranks_as_key "$@"
  is_built || { setup && build; }
  check_config "${arguments[@]}"
  make_packages all "${arguments[@]}"
}

# make_packages_in_use CONFIG OVERRIDES...: for the ops that the configuration has at the level, in any layer.
make_packages_in_use() {
  local ops
  ops=$(ops_at_level_aot_inductor "$@")
  [[ -z $ops ]] || make_packages "$ops" "$@"
}

# make_packages OPS CONFIG OVERRIDES...: `all`, or names with commas between. Does nothing for what is there.
make_packages() {
  local ops=$1 architecture arguments key
  shift
  architecture=$(package_architecture "$@") || exit
  arguments=("--value" "precision.compute=$(types_that_compute "$@")")
  for key in precision.reduce model.type model.family model.width model.heads model.key_value_heads model.feed_forward model.vocabulary model.classes model.stochastic_depth; do
    arguments+=("--value" "$key=$(config_value "$key" "$@")")
  done
  find_libraries
  python "$ROOT/tools/aot_inductor/make_for_config.py" --ops "$ops" "${arguments[@]}" --architecture "$architecture" \
    --root "$ROOT" --built "$(built_packages)" --output "$(packages_folder)" ||
    stop 70 "the packages of level aot_inductor could not be made; the words of the compiler are above"
}

# Those that the build makes for this machine, of common shapes and the shipped configurations; an archive has them.
build_packages() {
  is_checkout || return 0
  local architecture
  architecture=$(package_architecture) || exit
  bazel build "//kernels:${architecture/#x86-64-v3/cpu}_packages" || stop 70 "the build failed; the words of the compiler are above"
}

# The keys of `kernels:` that have it, as the configuration is resolved and in its plan; "all" where it is the default.
ops_at_level_aot_inductor() {
  local plan ops
  plan=$(config_value kernels.plan "$@")
  ops=$({
    "$(binary trainer/check)" --resolved "$@" 2>/dev/null | sed -n '/^kernels:/,/^[^ ]/p'
    if [[ -e $plan ]]; then cat "$plan"; fi
  } | sed -n 's/^[ -]*\([a-z_]*\): aot_inductor *\(#.*\)\?$/\1/p' | sort -u | paste -sd,)
  case ,$ops, in *,default,*) echo all ;; *) echo "$ops" ;; esac
}

# Those of all groups of parameters, with commas between.
types_that_compute() {
  "$(binary trainer/check)" --resolved "$@" 2>/dev/null | sed -n '/^precision:/,/^[^ ]/s/^[ -]*compute: \([a-z0-9]*\).*/\1/p' |
    sort -u | paste -sd,
}

# What is compiled for: the GPU of this machine, unless the run is on its CPU.
package_architecture() {
  local capability
  if ! has_gpu || [[ $(config_value run.device "$@") == cpu ]]; then
    echo x86-64-v3
    return
  fi
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
  [[ $capability == 9.0 ]] || stop 2 "level aot_inductor has packages for GPUs of compute capability 9.0 (H100, H200), and this one has $capability; choose another level"
  echo sm_90
}

# Those that the build or the archive has, and where new ones go.
built_packages() { if is_checkout; then echo "$ROOT/bazel-bin/kernels"; else echo "$ROOT/kernels"; fi; }
packages_folder() { echo "${STRATA_PACKAGES:-$CACHE/packages}"; }
