# SPDX-License-Identifier: MIT
# gpu-test: the tests that need GPUs, from a checkout or from an unpacked archive, on as many GPUs as there are.

readonly GPU_TESTS=(tests/sharding/communicator_test_ranks tests/sharding/device_mesh_test_ranks
  tests/sharding/fully_shard_test_ranks tests/trainer/sharded_gradients_test_ranks
  tests/trainer/step_data_test_ranks)
readonly GPU_RUNS=(gpu_training_test training_test)
readonly GPU_TEST_SECONDS=300  # of one test on one number of ranks

command_gpu_test() {
  (($# == 0)) || stop 2 "gpu-test has no options"
  local gpus ranks name failed=0 not_run=0
  gpus=$(compgen -G '/dev/nvidia[0-9]*' | wc -l)
  ((gpus > 0)) || stop 2 "there is no GPU here: no device file /dev/nvidia0"
  setup
  if is_checkout; then
    bazel build //trainer:train "${GPU_TESTS[@]/#/\/\/}" || stop 70 "the build failed; the words of the compiler are above"
  fi
  find_libraries
  ((EUID == 0)) && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export STRATA_TEST_DEVICE=cuda STRATA_TEST_TRAIN OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
  STRATA_TEST_TRAIN=$(binary trainer/train)
  for ranks in 1 2 4; do
    if ((ranks > gpus)); then
      say "not run: $ranks ranks, there are $gpus GPUs"
      not_run=$((not_run + ${#GPU_TESTS[@]}))
      continue
    fi
    for name in "${GPU_TESTS[@]}"; do
      run_gpu_test "${name##*/} on $ranks GPUs" timeout "$GPU_TEST_SECONDS" mpirun -q --oversubscribe --bind-to none \
        --mca btl self,vader -n "$ranks" "$(binary "$name")" || failed=$((failed + 1))
    done
  done
  export STRATA_TEST_RANKS=$((gpus < 4 ? gpus : 4))
  for name in "${GPU_RUNS[@]}"; do
    run_gpu_test "$name on up to $STRATA_TEST_RANKS GPUs" timeout "$((4 * GPU_TEST_SECONDS))" "$(command -v python3)" \
      "$ROOT/tools/bazel/run_unittest.py" "$ROOT/tests/trainer/$name.py" || failed=$((failed + 1))
  done
  say "$failed failed, $not_run not run"
  ((failed == 0))
}

# run_gpu_test NAME COMMAND...: its output is shown when it fails.
run_gpu_test() {
  local name=$1 output started
  shift
  started=$(date +%s)
  output=$(mktemp)
  if "$@" >"$output" 2>&1 </dev/null; then
    say "passed: $name ($(($(date +%s) - started)) s; $(grep -Eo '[0-9]+ tests? from [0-9]+ test suites? ran|^Ran [0-9]+ tests.*|skipped=[0-9]+' "$output" | tr '\n' ' '))"
    rm -f "$output"
  else
    cat "$output" >&2
    rm -f "$output"
    say "FAILED: $name"
    return 1
  fi
}
