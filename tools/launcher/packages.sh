# SPDX-License-Identifier: MIT
# packages: compiles the packages of level aot_inductor that a configuration needs, before training. Training compiles
# nothing.

command_packages() {
  (($#)) || stop 2 "which config? tools/strata packages configs/quickstart.yaml"
  local arguments
  ranks_as_key "$@"
  is_built || { setup && build; }
  ask trainer/check "${arguments[@]}"
  prepare_missing_graph
  make_packages all "${arguments[@]}"
}

# make_packages OPS CONFIG [KEY=VALUE ...]: compiles the missing packages for the configuration, whose values are in
# `facts`. OPS is `all`, a list of keys of `kernels:` with commas, or empty. A record of the state in which nothing was
# missing saves 3 s of tracing and checking.
make_packages() {
  local ops=$1 architecture state known calls
  shift
  [[ -n $ops ]] || return 0
  architecture=$(package_architecture "${facts[run.device]}") || exit
  state=$(state_of_packages)
  for known in all "$ops"; do
    [[ -z $state || $(cat "$(record_of_packages "$architecture" "$known")" 2>/dev/null) != "$state" ]] || return 0
  done
  find_libraries
  calls=$("$(binary trainer/validate)" --aot-shapes "$@") || exit
  python "$ROOT/tools/aot_inductor/make_for_config.py" --ops "$ops" --architecture "$architecture" --root "$ROOT" \
    --built "$(built_packages)" --output "$(packages_folder)" <<<"$calls" ||
    stop 70 "the packages of level aot_inductor could not be made; the words of the compiler are above"
  [[ -n $state && $(state_of_packages) == "$state" ]] || return 0  # otherwise something was compiled
  { mkdir -p "$(packages_folder)" && echo "$state" >"$(record_of_packages "$architecture" "$ops")"; } 2>/dev/null || true
}

# make_packages_for_plan CONFIG [KEY=VALUE ...]: a plan measures the levels that run on this machine. On a GPU for which
# there are no packages, level aot_inductor is not one of them.
make_packages_for_plan() {
  if has_packages "${facts[run.device]}"; then
    make_packages all "$@"
  else
    say "the plan is without level aot_inductor, which has no packages for this GPU"
  fi
}

# record_of_packages ARCHITECTURE OPS: the file with the state in which all packages for OPS were there. Its name is a
# hash of the configuration, without values that change no shape.
record_of_packages() {
  local name lines=("$*")
  for name in "${!facts[@]}"; do
    case $name in
      run.folder | run.seed | steps | optimizer.learning_rate | schedule.* | checkpoint.* | log.* | packages.ops) ;;
      *) lines+=("$name=${facts[$name]}") ;;
    esac
  done
  echo "$(packages_folder)/.complete-$(printf '%s\n' "${lines[@]}" | LC_ALL=C sort | sha256sum | cut -c1-16)"
}

# Prints a hash of all packages and of the files that they are made from, with the program that names the calls. Prints
# nothing if a folder cannot be read.
state_of_packages() {
  local files folders=("$(built_packages)" "$ROOT"/{kernels,tools/aot_inductor,tools/requirements.txt} "$(binary trainer/validate)")
  if [[ -d $(packages_folder) ]]; then folders+=("$(packages_folder)"); fi
  files=$(find -L "${folders[@]}" -maxdepth 2 -type f -regex '.*\(\.py\|\.so\|\.txt\|/validate\)' -printf '%p %i %C@ %s\n' 2>/dev/null) || return 0
  LC_ALL=C sort -u <<<"$files" | sha256sum
}

# Builds the packages for this machine, for common shapes and the shipped configurations. An archive already has them.
build_packages() {
  is_checkout || return 0
  local architecture
  architecture=$(package_architecture) || exit
  bazel build "//kernels:${architecture/#x86-64-v3/cpu}_packages" || stop 70 "the build failed; the words of the compiler are above"
}

# package_architecture [DEVICE]: prints the target of the compiler, which is this machine's GPU unless the run is on the
# CPU.
package_architecture() {
  local capability
  if ! has_gpu || [[ ${1-} == cpu ]]; then
    echo x86-64-v3
    return
  fi
  capability=$(compute_capability)
  [[ $capability == 9.0 ]] || stop 2 "level aot_inductor has packages for GPUs of compute capability 9.0 (H100, H200), and this one has $capability; choose another level"
  echo sm_90
}

# Prints "9.0" or the like, and nothing if the driver does not answer.
compute_capability() { nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1; }

# has_packages [DEVICE]: whether level aot_inductor has packages for this machine. If the driver does not answer, it has
# them, so that package_architecture stops the command and no plan is written without them.
has_packages() { ! has_gpu || [[ ${1-} == cpu || $(compute_capability) == @(9.0|) ]]; }

# The folder of the packages that the build or the archive has, and the folder for new ones.
built_packages() { if is_checkout; then echo "$ROOT/bazel-bin/kernels"; else echo "$ROOT/kernels"; fi; }
packages_folder() { echo "${STRATA_PACKAGES:-$CACHE/packages}"; }
