# SPDX-License-Identifier: MIT
# gpu-test: runs the tests that need GPUs, from a checkout or an unpacked archive, on the GPUs of this machine.

# These programs run under mpirun on 1, 2 and 4 GPUs.
readonly RANK_TESTS=(tests/sharding/communicator_test_ranks tests/sharding/device_mesh_test_ranks
  tests/sharding/fully_sharded_layers_test_ranks tests/trainer/ranks/sharded_gradients_test_ranks
  tests/trainer/ranks/sharded_gradients_of_types_test_ranks tests/trainer/ranks/micro_batch_sums_test_ranks
  tests/trainer/ranks/gathered_codes_test_ranks tests/trainer/ranks/step_data_test_ranks
  tests/trainer/ranks/sequence_exchange_test_ranks tests/trainer/memory/settle_recompute_test_ranks
  tests/trainer/memory/step_memory_test_ranks tests/trainer/memory/save_memory_test_ranks)
# These programs run on one GPU.
readonly LEVELS_TEST=tests/kernels/levels_agree_gpu_test HUGE_TEST=tests/kernels/huge_gpu_test
readonly ONE_GPU_TESTS=(tests/kernels/wide_rows_gpu_test tests/kernels/gelu_gemm_gpu_test tests/kernels/triton_capture_test
  tests/kernels/aot_inductor_capture_test tests/kernels/traced_gpu_test tests/kernels/filled_rows_gpu_test
  tests/kernels/loss_factor_gpu_test tests/kernels/not_finite_gpu_test tests/kernels/fp32_sums_gpu_test tests/trainer/memory/rehearsal_gpu_test
  tests/kernels/attention/long_rows_gpu_test tests/kernels/attention/random_attention_gpu_test
  tests/kernels/generation/cached_attention_gpu_test tests/kernels/generation/few_rows_gpu_test
  tests/kernels/gpus/multiprocessors_gpu_test tests/kernels/gpus/gemm_tiles_gpu_test
  tests/kernels/quantize/fp8_linear_gpu_test tests/kernels/quantize/quantize_gpu_test tests/kernels/sparsity/prune_gpu_test
  tests/kernels/sparsity/sparse_product_gpu_test
  tests/tools/generation/decoder_gpu_test tests/tools/generation/sample_gpu_test)
# These have a GPU to themselves, because they measure times or need most of its memory.
readonly LONE_TESTS=(tests/kernels/twice_gpu_test tests/kernels/held_multiprocessor_gpu_test tests/kernels/quantize/fp8_gated_linear_gpu_test
  tests/kernels/quantize/delayed_operand_gpu_test tests/kernels/quantize/fp8_operand_gpu_test tests/kernels/quantize/fp8_row_linear_gpu_test
  tests/kernels/quantize/fp8_row_operand_gpu_test tests/kernels/quantize/fp8_shard_gpu_test tests/kernels/quantize/block_operand_gpu_test
  tests/kernels/quantize/swiglu_amax_gpu_test tests/kernels/sparsity/sparse_rates_gpu_test tests/trainer/checkpoint/snapshot_gpu_test tests/tools/bench/module_timing_gpu_test)
# These files of unittest cases start runs themselves: on 1, 2 and 4 GPUs; on 2 and 4; on all GPUs, up to 4; on one GPU.
readonly RUNS_ON_EACH=(gpu_training_test stop_in_step_test) RUNS_ON_SEVERAL=(gpu_hosts_test tasks/gpu_sequence_test)
readonly RUNS_ON_ALL=(precision/float16_training_test tasks/format_training_test tasks/drawn_packings_test tasks/delayed_scaling_test tasks/gathered_codes_training_test
  sparsity/sparse_training_test training_test profile_test
  nonfinite_training_test straggler_training_test replay_test resume_every_step_test save_in_flight_test)
readonly RUNS_ON_ONE=(gpu_losses_test kernel_ladder_test)
# These leave kernels on GPUs that never end, so they run after all others: a program on one GPU, and cases on 1, 2 and 4.
readonly BREAKING_TEST=tests/sharding/gpu_watch_gpu_test BREAKING_RUNS=gpu_faults_test
readonly NVTX_NAMES=tests/trainer/profile/libnvtx_names.so    # for gpu_training_test
readonly SLOW_DISK=tests/trainer/checkpoint/libslow_disk.so  # for save_in_flight_test
readonly ABSENT_RANK=tests/trainer/faults/libabsent_rank.so   # for gpu_faults_test
# Parts of levels_agree_gpu_test, one process each. 7 divides no number of levels and types, so each part has all of them.
readonly LEVELS_PARTS=7
readonly HUGE_TEST_MIB=112640  # GPU memory that huge_gpu_test needs
readonly GPU_TEST_SECONDS=300  # limit for one test

command_gpu_test() {
  local wanted=("$@") gpus cores program next_gpu=0 most_at_once outcomes
  gpus=$(gpus_here)
  ((gpus > 0)) || stop 2 "there is no GPU here: no device file /dev/nvidia0 that can be opened"
  setup
  if is_checkout; then
    local labels=(//kernels:sm_90_packages)
    for program in trainer/check trainer/train trainer/validate tools/bench/bench_step tools/weights/export tools/generation/generate tools/levels tools/replay/replay \
      "$NVTX_NAMES" "$SLOW_DISK" "$ABSENT_RANK" "$LEVELS_TEST" "$HUGE_TEST" "$BREAKING_TEST" "${RANK_TESTS[@]}" "${ONE_GPU_TESTS[@]}" "${LONE_TESTS[@]}"; do
      labels+=("//${program%/*}:${program##*/}")
    done
    bazel build "${labels[@]}" || stop 70 "the build failed; the words of the compiler are above"
  fi
  find_libraries
  ((EUID == 0)) && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export STRATA_TEST_DEVICE=cuda STRATA_TEST_TRAIN STRATA_TEST_EXPORT STRATA_TEST_GENERATE STRATA_TEST_LEVELS
  export STRATA_TEST_NVTX STRATA_TEST_CONFIG STRATA_TEST_REPLAY STRATA_TEST_SLOW_DISK STRATA_TEST_ABSENT_RANK_LIBRARY STRATA_TEST_BENCH_STEP
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
  STRATA_TEST_TRAIN=$(binary trainer/train) STRATA_TEST_EXPORT=$(binary tools/weights/export) STRATA_TEST_GENERATE=$(binary tools/generation/generate)
  STRATA_TEST_NVTX=$(binary "$NVTX_NAMES") STRATA_TEST_REPLAY=$(binary tools/replay/replay) STRATA_TEST_SLOW_DISK=$(binary "$SLOW_DISK")
  STRATA_TEST_ABSENT_RANK_LIBRARY=$(binary "$ABSENT_RANK")
  STRATA_TEST_LEVELS=$(binary tools/levels) STRATA_TEST_BENCH_STEP=$(binary tools/bench/bench_step)
  STRATA_TEST_CONFIG=$ROOT/configs/kernel_ladder.yaml  # for kernel_ladder_test
  packages_of_the_ladder
  packages_of_the_proof
  outcomes=$(mktemp -d)
  cores=$(env -u OMP_NUM_THREADS nproc)
  # Processes share a GPU by turns, and a collective proceeds only while its ranks have their turns on all GPUs. Next to
  # 15 other processes, tests on 4 H200 took 50 to 190 times as long as on one GPU. So a GPU has one program of
  # several ranks at a time, next to tests on one rank, which wait for no other. Three runs may share a GPU, because
  # they spend most of their time starting.
  most_at_once=$((cores / 4)) tests_on_one_gpu &
  local on_one=$!
  programs_on_several_gpus &
  wait "$!" || became failed
  wait "$on_one" || became failed
  runs_on_several_gpus
  most_at_once=1 lone_tests
  tests_that_break_gpus

  local passed failed
  passed=$(number_of passed) failed=$(number_of failed)
  say "$passed passed, $failed failed, $(number_of not-run) not run"
  rm -rf "$outcomes"
  ((failed == 0 && passed > 0))
}

# The packages that kernel_ladder_test needs at level aot_inductor: both of its families, in both types.
packages_of_the_ladder() {
  local type model runs config
  is_wanted kernel_ladder_test || return 0
  runs=$(PYTHONPATH=$ROOT/tests/trainer python -c "$ONLY_INSTALLED"'
from kernel_ladder_test import FAMILIES, TOLERANCE
for model in FAMILIES.values():
    for dtype in TOLERANCE:
        print(dtype, *model)')
  while read -r type model; do
    facts=() config=("$STRATA_TEST_CONFIG" "precision.compute=$type" ${model:+"$model"})
    ask trainer/check "${config[@]}" </dev/null
    make_packages all "${config[@]}" </dev/null
  done <<<"$runs"
}

# The packages of attention that levels_agree_gpu_test calls. They are many, so no build has them.
packages_of_the_proof() {
  is_wanted "${LEVELS_TEST##*/}" || is_wanted random_attention_gpu_test || return 0
  python "$ROOT/tests/kernels/attention/proof_calls.py" |
    python "$ROOT/tools/aot_inductor/make_for_config.py" --architecture sm_90 --root "$ROOT" --built "$(built_packages)" --output "$(packages_folder)" ||
    stop 70 "the packages for the proof of attention could not be made; the words of the compiler are above"
}

tests_on_one_gpu() {
  local file part program
  for file in "${RUNS_ON_ONE[@]}"; do unittest_on_gpus 1 "$file"; done
  for ((part = 1; part <= LEVELS_PARTS; part++)); do
    on_gpus 1 "${LEVELS_TEST##*/}, part $part of $LEVELS_PARTS" \
      env "GTEST_TOTAL_SHARDS=$LEVELS_PARTS" "GTEST_SHARD_INDEX=$((part - 1))" "$(binary "$LEVELS_TEST")"
  done
  rank_tests 1
  for file in "${RUNS_ON_EACH[@]}"; do unittest_on_gpus 1 "$file"; done
  for program in "${ONE_GPU_TESTS[@]}"; do on_gpus 1 "${program##*/}" "$(binary "$program")"; done
  wait
}

programs_on_several_gpus() {
  local ranks
  for ranks in 4 2; do
    most_at_once=$((gpus / ranks)) rank_tests "$ranks"
    wait
  done
}

runs_on_several_gpus() {
  local ranks file
  for ranks in 4 2; do
    most_at_once=$((3 * (gpus / ranks)))
    for file in "${RUNS_ON_EACH[@]}" "${RUNS_ON_SEVERAL[@]}"; do unittest_on_gpus "$ranks" "$file"; done
    wait
  done
  most_at_once=3
  for file in "${RUNS_ON_ALL[@]}"; do unittest_on_gpus "$((gpus < 4 ? gpus : 4))" "$file"; done
  wait
}

lone_tests() {
  local program
  for program in "${LONE_TESTS[@]}"; do on_gpus 1 "${program##*/}" "$(binary "$program")"; done
  if (($(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1) < HUGE_TEST_MIB)); then
    is_wanted "${HUGE_TEST##*/}" && not_run "${HUGE_TEST##*/}: it needs $HUGE_TEST_MIB MiB"
  else
    on_gpus 1 "${HUGE_TEST##*/}" "$(binary "$HUGE_TEST")"
  fi
  wait
}

tests_that_break_gpus() {
  local ranks
  for ranks in 4 2 1; do
    most_at_once=$((2 * (gpus / ranks)))
    unittest_on_gpus "$ranks" "$BREAKING_RUNS"
    wait
  done
  on_gpus 1 "${BREAKING_TEST##*/}" "$(binary "$BREAKING_TEST")"
  wait
}

rank_tests() {
  local ranks=$1 program part parts name
  for program in "${RANK_TESTS[@]}"; do
    # A process has numbers for 2048 groups of ranks, and this test makes more.
    parts=1 && [[ $program == */step_memory_test_ranks ]] && parts=2
    for ((part = 1; part <= parts; part++)); do
      name=${program##*/} && ((parts > 1)) && name+=", part $part of $parts,"
      on_gpus "$ranks" "$name on $ranks GPUs" env "GTEST_TOTAL_SHARDS=$parts" "GTEST_SHARD_INDEX=$((part - 1))" \
        mpirun -q --oversubscribe --bind-to none --mca btl self,vader -n "$ranks" "$(binary "$program")"
    done
  done
}

# Each outcome of a test is a file in $outcomes.
became() { touch "$(mktemp -u "$outcomes/$1.XXXXXX")"; }
number_of() { find "$outcomes" -name "$1.*" | wc -l; }

not_run() {
  became not-run
  say "not run: $1"
}

# is_wanted NAME: succeeds if no words were given, or if the name contains one of them.
is_wanted() {
  local word
  ((${#wanted[@]} > 0)) || return 0
  for word in "${wanted[@]}"; do [[ $1 == *$word* ]] && return 0; done
  return 1
}

# unittest_on_gpus RANKS FILE: runs each case of tests/trainer/FILE.py by itself.
unittest_on_gpus() {
  local run cases case
  run=("$(python -c 'import sys; print(sys.executable)')" "$ROOT/tools/bazel/run_unittest.py" "$ROOT/tests/trainer/$2.py")
  if ! cases=$("${run[@]}" --list); then
    became failed
    say "FAILED: $2 has no list of its cases, Python's words are above; it needs the packages of tools/requirements.txt"
    return 0
  fi
  for case in $cases; do
    STRATA_TEST_RANKS=$1 on_gpus "$1" "$2, ${case##*.}, on up to $1 GPUs" "${run[@]}" "$case"
  done
}

# on_gpus GPUS NAME COMMAND...: runs a test in the background, if it is wanted and the machine has enough GPUs.
on_gpus() {
  local needed=$1 name=$2 visible i
  shift 2
  is_wanted "$name" || return 0
  if ((needed > gpus)); then
    not_run "$name: there are $gpus GPUs"
    return 0
  fi
  while (($(jobs -rp | wc -l) >= (most_at_once > 0 ? most_at_once : 1))); do wait -n || true; done
  visible=$(for ((i = 0; i < needed; i++)); do echo $(((next_gpu + i) % gpus)); done | paste -sd,)
  next_gpu=$(((next_gpu + needed) % gpus))
  CUDA_VISIBLE_DEVICES=$visible run_gpu_test "$name" "$@" &
}

# run_gpu_test NAME COMMAND...: runs a test and shows its output if it fails.
run_gpu_test() {
  local name=$1 output started seconds
  shift
  started=$(date +%s)
  output=$(mktemp)
  if ! timeout --kill-after=10 "$GPU_TEST_SECONDS" "$@" >"$output" 2>&1 </dev/null; then
    became failed
    seconds=$(($(date +%s) - started))
    { cat "$output" && echo "strata: FAILED: $name ($seconds s)"; } >&2
  elif grep -aq '^OK (skipped=1)' "$output"; then
    not_run "$name: $(grep -aEo 'skipped .*' "$output" | head -n 1)"
  elif grep -aqE 'SKIPPED \].*tests?, listed' "$output" && ! grep -aqE 'PASSED  \] [1-9]' "$output"; then
    not_run "$name: skipped $(grep -aEo '[0-9]+ tests?, listed' "$output" | head -n 1 | cut -d , -f 1)"
  else
    became passed
    seconds=$(($(date +%s) - started))
    say "passed: $name ($seconds s; $(grep -aEo '(PASSED|SKIPPED)  ?\] [0-9]+ tests?|^Ran [0-9]+ test' "$output" | tr -d ']' | sort -u | tr -s ' \n' ' '))"
  fi
  rm -f "$output"
}
