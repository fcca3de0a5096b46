# SPDX-License-Identifier: MIT
# The build. It is skipped if nothing has changed: asking Bazel takes 1 s, checking the files 20 ms.

readonly PROGRAMS=(trainer/check trainer/train trainer/validate tools/generation/generate tools/bench/bench_step tools/weights/export tools/weights/import tools/levels tools/replay/replay tools/sensitivity/sensitivity tools/bench/bench_generate tools/bench/images/bench_images tools/bench/kernels/bench_kernels tools/bench/bench_modules tools/bench/bench_neighbors tools/plan/plan_kernels tools/explain/op_facts tools/promise/call_times)

readonly BUILD_GIB=12  # what a build of all tests from nothing takes, with what it adds to the disk cache

# bazel COMMAND ARGUMENTS...: .bazelrc has the disk cache for who starts Bazel by hand; it cannot name XDG_CACHE_HOME.
bazel() {
  local command=$1 cache=() code=0 limit
  shift
  limit=$(disk_cache_limit) || exit "$?"
  [[ -z ${XDG_CACHE_HOME:-} || $command == query ]] || cache=("--disk_cache=$CACHE/bazel")
  [[ $command == query ]] || make_room_for_build "$limit"
  (cd "$ROOT" && command bazel "$command" "${cache[@]}" "$@") || code=$?
  [[ $command == query ]] || prune_disk_cache "$limit"
  return "$code"
}

# Prints how many GiB the disk cache may have. It is asked for before a build, so that a wrong value ends no build of an hour.
disk_cache_limit() {
  local limit=${STRATA_DISK_CACHE_GIB:-30}
  [[ $limit =~ ^[0-9]+(\.[0-9]+)?$ ]] || stop 2 "STRATA_DISK_CACHE_GIB is '$limit', expected a number of GiB such as 30"
  echo "$limit"
}

# make_room_for_build GIB: the disk cache gives way to the build where its disk is nearly full, because a full disk fails any test. The disk
# is that of the folder bazel, which may be a link to a larger one.
make_room_for_build() {
  local limit=$1 free
  free=$(free_gib "$CACHE/bazel")
  if ((free < BUILD_GIB)); then
    prune_disk_cache "$(disk_cache_gib | awk -v limit="$limit" -v lacking=$((BUILD_GIB - free)) \
      '{ room = $1 - lacking; print room < 0 ? 0 : room < limit ? room : limit }')"
    free=$(free_gib "$CACHE/bazel")
  fi
  ((free >= BUILD_GIB)) ||
    say "the disk of $CACHE/bazel has $free GiB free, and a build of all tests takes up to $BUILD_GIB GiB; free some space if it fails"
}

# Prints how many GiB the disk cache has.
disk_cache_gib() { find "$CACHE/bazel/cas" -type f -printf '%s\n' 2>/dev/null | awk '{ total += $1 } END { print total / 2 ^ 30 }'; }

# prune_disk_cache GIB: Bazel 4 deletes nothing from its disk cache, and each build of all tests adds up to 12 GiB. Files in
# cas that nobody used for longest are deleted until the rest has at most GIB. Bazel builds again what it misses, but it never
# replaces a result in ac. Without its files a result would make a test run each time, so it is deleted before them. Bazel
# never reads the empty file, which many results name.
prune_disk_cache() {
  local limit=$1 old
  [[ -d $CACHE/bazel ]] || return 0
  (
    export LC_ALL=C
    cd "$CACHE/bazel" || exit
    old=$(find cas -type f ! -empty -printf '%A@ %T@ %s %p\n' | awk '{ print ($1 > $2 ? $1 : $2), $3, $4 }' | sort -k 1,1gr |
      awk -v limit="$limit" '{ total += $2 } total > limit * 2 ^ 30 { print $3 }')
    [[ -n $old ]] || exit 0
    {
      grep -rlF -f <(cut -d / -f 3 <<<"$old") ac  # a result names its files
      echo "$old"
    } | xargs rm -f --
  ) 2>/dev/null || true
}

# Identifies the programs, so that a stamp is valid for exactly these files.
program_identities() { stat -Lc '%n %i %Z %s' "${PROGRAMS[@]/#/$ROOT/bazel-bin/}" 2>/dev/null; }

# Prints a hash of the sources, folders (for deleted files), Debian's packages and the Python environment. It holds status
# change times, which no copy or checkout can set back, and sizes.
state_of_sources() {
  (cd "$ROOT" && find WORKSPACE BUILD .bazelrc .bazelversion .venv .venv/.complete /var/lib/dpkg/status \
    base configs kernels modules sharding trainer tools ! -name '*.yaml' -printf '%p %i %C@ %s\n' 2>/dev/null || true) |
    LC_ALL=C sort | sha256sum
}

# Succeeds if the programs were built from the present sources. States are compared for equality, not by their order in
# time: after a clock was set back, changed sources would look older than the programs.
is_built() {
  is_checkout || return 0
  local stamp=$ROOT/bazel-bin/strata.built
  [[ -e $stamp && $(program_identities && state_of_sources) == "$(<"$stamp")" ]]
}

build() {
  is_built && return
  local state program labels=()
  for program in "${PROGRAMS[@]}"; do labels+=("//${program%/*}:${program##*/}"); done
  # The state is taken at the build's start, so that files that change during the build are built next time.
  state=$(state_of_sources)
  if [[ -e $ROOT/bazel-bin ]]; then say "building"; else say "building; the first time takes 20 to 25 minutes on two cores"; fi
  bazel build "${labels[@]}" || stop 70 "the build failed; the words of the compiler are above"
  { program_identities && echo "$state"; } >"$ROOT/bazel-bin/strata.built"
}

command_dist() {
  is_checkout || stop 2 "this is an unpacked archive; tools/strata dist works in a checkout"
  setup
  bazel build //tools:dist || stop 70 "the build failed; the words of the compiler are above"
  local archive=$ROOT/bazel-bin/tools/strata.tar.gz
  say "the archive is $archive, its SHA-256 in $archive.sha256 is $(cut -d ' ' -f 1 "$archive.sha256")"
}
