# SPDX-License-Identifier: MIT
# test: runs all tests, or those of a tier, and prints one line at the end with the number of cases. The size of a test
# in its BUILD file is its tier: small is unit, medium is integration, large is stress.

command_test() {
  local flags=() sanitizer='' tier=all all='' sizes='' budget='' profile='' tests='//...' code=0 report more=() value beside
  while (($#)); do
    case $1 in
      --all) all=1 ;;
      --tier | --tier=*) take_value 'unit, integration, stress or all' "$@" && tier=$value && shift "$beside" ;;
      --profile) profile=1 ;;
      --sanitize | --sanitize=*) take_value 'address or thread' "$@" && sanitizer=$value && shift "$beside" ;;
      *) stop 2 "test has the options --all, --tier, --profile and --sanitize, got '$1'" ;;
    esac
    shift
  done
  [[ -z $all || $tier == all || $tier == stress ]] || stop 2 "--all is --tier stress, but --tier is '$tier'; leave out one of the two"
  [[ -z $all ]] || tier=stress
  case $tier in
    unit) sizes='small' budget=30 ;;
    integration) sizes='small|medium' budget=300 ;;
    stress) flags+=(--test_env=STRATA_TEST_ALL=1 --cache_test_results=no) ;;
    all) ;;
    *) stop 2 "--tier: expected unit, integration, stress or all, got '$tier'" ;;
  esac
  [[ -z $budget || -z $sanitizer ]] ||
    stop 2 "--tier $tier has a budget of $budget s, which programs for the $sanitizer sanitizer do not keep; leave out one of the two"
  [[ -z $sizes ]] || tests="attr(size, \"^($sizes)\$\", tests(//...)) except attr(tags, \"\bgpu\b\", tests(//...))"
  [[ -z $profile ]] || flags+=(--run_under=//tools/bazel:measured_test --cache_test_results=no)
  # Bazel says when a test began to wait for cores, not when it began to run. With a job per core only few wait.
  [[ -z $budget$profile ]] || flags+=(--jobs=HOST_CPUS)
  case $sanitizer in
    '') ;;
    address) flags+=(--config=asan --config=ubsan) ;;
    thread) flags+=(--config=tsan) tests='attr(tags, "\bthreads\b", tests(//...))' ;;
    *) stop 2 "--sanitize: expected address or thread, got '$sanitizer'" ;;
  esac
  is_checkout || stop 2 "this is an unpacked archive; tools/strata test works in a checkout"
  setup
  make_temporary_folder
  report=$temporary
  : >"$report/gpu"
  has_gpu || flags+=(--test_tag_filters=-gpu)
  [[ -t 1 ]] || flags+=(--show_progress_rate_limit=30 --color=no --curses=no)
  # The pattern is not //..., because Bazel compiles a library that is named directly a second time, for a shared object
  # that nobody loads. Targets named in a file are built even if they are manual, and the fuzz programs need clang.
  bazel query --noshow_progress "($tests)"' except kind("cc_library|filegroup|alias", //...) except attr(tags, "\bmanual\b", //...)' >"$report/targets" ||
    stop 70 "Bazel does not understand the BUILD files, its words are above"
  # Times are of tests alone, so nothing is compiled beside them. The next command reports what cannot be built.
  [[ -z $budget$profile ]] || bazel build --target_pattern_file="$report/targets" --keep_going "${flags[@]}" </dev/null || true
  bazel test --target_pattern_file="$report/targets" --keep_going --build_event_json_file="$report/events" "${flags[@]}" </dev/null || code=$?
  has_gpu || bazel query --noshow_progress 'attr(tags, "\bgpu\b", tests('"$tests"'))' >"$report/gpu" 2>/dev/null || true
  # Bazel cannot run inside Bazel, so the command of a new user is tried after the tests.
  if [[ -n $sizes ]]; then
    say "the quick start is not tried: tier $tier is a part of the tests"
  elif [[ -n $sanitizer ]]; then
    say "the quick start is not tried: its programs are not for the $sanitizer sanitizer"
  elif ((code == 0 || code == 3)); then  # 3: everything was built, some tests failed
    if try_quick_start "$report"; then more=(--more passed 'quick start'); else more=(--more failed 'quick start'); fi
  else
    more=(--more skipped 'quick start: not everything could be built')
  fi
  python "$ROOT/tools/launcher/count_tests.py" --events "$report/events" --not-run "$report/gpu" "${more[@]}" || code=$?
  [[ -z $budget$profile ]] ||
    python "$ROOT/tools/launcher/test_times.py" --events "$report/events" --tier "$tier" ${budget:+--budget "$budget"} ${profile:+--profile} || code=$?
  ((code == 0)) || exit 1
}

# Runs tools/strata train configs/quickstart.yaml for a few steps with two ranks.
try_quick_start() {
  say "trying the quick start: 4 steps under two ranks"
  "$ROOT/tools/strata" train "$ROOT/configs/quickstart.yaml" --ranks 2 "run.folder=$1/run" steps=4 schedule.warmup=1 </dev/null &&
    [[ -s $1/run/metrics.jsonl ]]
}
