# SPDX-License-Identifier: MIT
# fuzz: builds the fuzz targets with Debian's clang, runs each for some seconds and says what was found. With --coverage it
# says which lines of the parsers the known inputs run.

readonly LEDGER=$ROOT/tests/fuzz/ledger.tsv

# Prints the targets, which are the files tests/fuzz/<target>_fuzz.cc.
fuzz_targets() { (cd "$ROOT/tests/fuzz" && for file in *_fuzz.cc; do echo "${file%_fuzz.cc}"; done); }

command_fuzz() {
  local seconds=60 coverage='' targets=() labels=() flags=() programs=() target meant code=0 value beside
  while (($#)); do
    case $1 in
      --seconds | --seconds=*) take_value 'how long each target runs' "$@" && seconds=$value && shift "$beside" ;;
      --coverage) coverage=1 ;;
      -*) stop 2 "fuzz has only the options --seconds and --coverage" ;;
      *) targets+=("$1") ;;
    esac
    shift
  done
  [[ $seconds =~ ^[1-9][0-9]{0,6}$ ]] || stop 2 "--seconds: expected a whole number from 1 to 9999999, got '$seconds'"
  is_checkout || stop 2 "this is an unpacked archive; tools/strata fuzz works in a checkout"
  for target in "${targets[@]}"; do
    [[ -e $ROOT/tests/fuzz/${target}_fuzz.cc ]] && continue
    # shellcheck disable=SC2046
    meant=$(nearest "$target" $(fuzz_targets))
    stop 2 "there is no target '$target'; ${meant:+did you mean '$meant'? }There are: $(fuzz_targets | tr '\n' ' ')"
  done
  ((${#targets[@]})) || mapfile -t targets < <(fuzz_targets)
  package_lists+=("$ROOT/tools/fuzz_packages.txt")
  setup
  for target in "${targets[@]}"; do labels+=("//tests/fuzz:${target}_fuzz"); done
  [[ -z $coverage ]] || flags=(--define=fuzz=coverage)
  say "building the targets"
  bazel build "${flags[@]}" "${labels[@]}" || stop 70 "the build failed; the words of the compiler are above"
  fuzz_folder=$(mktemp -d -p "$( [[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" strata-fuzz.XXXXXX) ||
    stop 4 "no folder for temporary files can be made; name another place in TMPDIR"
  trap 'rm -rf -- "$fuzz_folder"' EXIT
  if [[ -n $coverage ]]; then
    for target in "${targets[@]}"; do replay_for_coverage "$target"; done
    (cd "$ROOT" && python tests/fuzz/coverage.py "$fuzz_folder" tests/fuzz/corpus "$CACHE/fuzz/corpus" "${programs[@]}") || code=$?
    exit "$code"
  fi
  for target in "${targets[@]}"; do fuzz_one "$target" "$seconds" || code=1; done
  say "runs, edges and seconds are added to tests/fuzz/ledger.tsv"
  exit "$code"
}

# replay_for_coverage TARGET: gives the program of a target all known inputs, and adds it to `programs`.
replay_for_coverage() {
  local target=$1 known=$CACHE/fuzz/corpus/$1 program
  program=$(binary "tests/fuzz/${target}_fuzz")
  mkdir -p "$known" "$fuzz_folder/files" || stop 4 "the folder $CACHE/fuzz cannot be made or written; name another place in XDG_CACHE_HOME"
  LLVM_PROFILE_FILE=$fuzz_folder/${target}_fuzz.profraw TMPDIR=$fuzz_folder/files "$program" -runs=0 "$known" "$ROOT/tests/fuzz/corpus/$target" \
    >"$fuzz_folder/log" 2>&1 </dev/null || { tail -n 40 "$fuzz_folder/log" >&2 && stop 1 "$target fails on a known input; tools/strata fuzz $target names it"; }
  programs+=("$program")
}

# Prints the commit of the checkout, with a + if it has changes besides the ledger.
fuzzed_commit() {
  local commit
  commit=$(git -C "$ROOT" rev-parse --short HEAD 2>/dev/null) || { echo unknown && return; }
  [[ -z $(git -C "$ROOT" status --porcelain -- . ':!tests/fuzz/ledger.tsv') ]] || commit+=+
  echo "$commit"
}

# fuzz_one TARGET SECONDS: runs one target and prints a line about it. Fails if there is a finding. Inputs that reached
# new code are kept for the next run, beside the seeds of the checkout. The program itself has the limits of an input.
fuzz_one() {
  local target=$1 seconds=$2 known=$CACHE/fuzz/corpus/$1 findings=$CACHE/fuzz/findings/$1 log=$fuzz_folder/log
  local begin=$SECONDS code=0 runs edges spent input
  mkdir -p "$known" "$findings" "$fuzz_folder/files" || stop 4 "the folder $CACHE/fuzz cannot be made or written; name another place in XDG_CACHE_HOME"
  touch "$fuzz_folder/begun"
  # Files of inputs are in memory. Set-up installs no llvm-symbolizer, but addr2line comes with g++.
  TMPDIR=$fuzz_folder/files ASAN_OPTIONS=allow_addr2line=1 "$(binary "tests/fuzz/${target}_fuzz")" \
    "$known" "$ROOT/tests/fuzz/corpus/$target" "-max_total_time=$seconds" "-artifact_prefix=$findings/" \
    -print_final_stats=1 >"$log" 2>&1 </dev/null || code=$?
  spent=$((SECONDS - begin))
  # A run that ended at a finding prints no statistics, but the number of the last run that it reported.
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  runs=${runs:-$(sed -n 's/^#\([0-9]*\).*/\1/p' "$log" | tail -n 1)}
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  printf '%s\t%s\t%s\t%s\t%s\n' "$target" "${runs:-0}" "${edges:-0}" "$spent" "$(fuzzed_commit)" >>"$LEDGER"
  if ((code == 0)); then
    echo "$target: ${runs:-0} runs, ${edges:-0} edges, $spent s, no finding"
    return
  fi
  input=$(find "$findings" -type f ! -name 'slow-unit-*' -newer "$fuzz_folder/begun" | head -n 1)
  echo "$target: ${runs:-0} runs, ${edges:-0} edges, $spent s, A FINDING: $(grep -m 1 -E '^finding: |ERROR: |runtime error: ' "$log" || echo "it ended with code $code")"
  [[ -z $input ]] || echo "  its input is $input; again: $(binary "tests/fuzz/${target}_fuzz") $input"
  tail -n 40 "$log" >&2
  return 1
}
