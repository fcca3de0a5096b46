# SPDX-License-Identifier: MIT
# The build. It is skipped if nothing has changed: asking Bazel takes 1 s, checking the files 20 ms.

readonly PROGRAMS=(trainer/check trainer/train trainer/validate tools/generate tools/bench_step tools/export tools/import tools/levels tools/bench/bench_images tools/bench/bench_kernels tools/bench/bench_neighbors tools/bench/plan_kernels)

bazel() { (cd "$ROOT" && command bazel "$@"); }

# Identifies the programs, so that a stamp is valid for exactly these files.
program_identities() { stat -Lc '%n %i %Z %s' "${PROGRAMS[@]/#/$ROOT/bazel-bin/}" 2>/dev/null; }

# Succeeds if the programs were built from the present sources. It compares status change times with the start of the
# build. No copy or checkout can set these times back. Checked are sources, folders (for deleted files), Debian's
# packages and the Python environment.
is_built() {
  is_checkout || return 0
  local stamp=$ROOT/bazel-bin/strata.built
  [[ -e $stamp && $(program_identities) == "$(<"$stamp")" ]] || return 1
  (cd "$ROOT" && [[ -z $(find WORKSPACE BUILD .bazelrc .bazelversion .venv .venv/.complete /var/lib/dpkg/status \
    base configs kernels modules sharding trainer tools ! -name '*.yaml' -newercm "$stamp" -print -quit 2>&1) ]])
}

build() {
  is_built && return
  local begun program labels=()
  for program in "${PROGRAMS[@]}"; do labels+=("//${program%/*}:${program##*/}"); done
  begun=$(mktemp)
  if [[ -e $ROOT/bazel-bin ]]; then say "building"; else say "building; the first time takes 20 to 25 minutes on two cores"; fi
  if ! bazel build "${labels[@]}"; then
    rm -f "$begun"
    stop 70 "the build failed; the words of the compiler are above"
  fi
  # The stamp has the time of the build's start, so that files that changed during the build are built next time.
  program_identities >"$ROOT/bazel-bin/strata.built"
  touch -r "$begun" "$ROOT/bazel-bin/strata.built"
  rm -f "$begun"
}

command_dist() {
  is_checkout || stop 2 "this is an unpacked archive; tools/strata dist works in a checkout"
  setup
  bazel build //tools:dist || stop 70 "the build failed; the words of the compiler are above"
  say "the archive is $ROOT/bazel-bin/tools/strata.tar.gz"
}
