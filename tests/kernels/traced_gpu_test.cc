// SPDX-License-Identifier: MIT
// Tensors without values take what tensors on a GPU take, as CUDA's caching allocator counts it.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/traced_run.h"

namespace strata::kernels {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// LibTorch's workspace for cuBLAS (allocated once for each thread) and the largest one of cuBLASLt.
constexpr int64_t kProductWorkspace = int64_t{32} << 20;
// The allocator leaves up to 1 MiB in a block that is larger than 1 MiB. No call has more than 32 of them.
constexpr int64_t kLargeBlocks = int64_t{32} << 20;

CountedRun real_run(const OpCase& op_case, Level level, at::ScalarType dtype) {
  const auto bytes = [] {
    const auto stats = allocator::getDeviceStats(0);
    return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  };
  return counted_run(
      op_case, level, dtype, c10::Device(c10::kCUDA, 0),
      {[&] { return bytes().current; }, [&] { return bytes().peak; }, [] { allocator::resetPeakStats(0); }});
}

// The memory that a library may take beyond what is traced: products of matrices, cuDNN's attention, and the sorting
// and scanning of LibTorch's own kernels.
int64_t allowed(const OpCase& op_case, Level level) {
  static const std::set<std::string> products = {"linear", "linear_cross_entropy", "attention"};
  static const std::set<std::string> sorted = {"embedding", "neighbor_aggregate", "neighbor_attention"};
  const bool is_large = op_case.name.find("_large_") == std::string::npos && op_case.leaves[0].numel() > 100'000;
  int64_t bytes = is_large ? kLargeBlocks : 0;
  if (products.count(op_case.op()) > 0) bytes += kProductWorkspace;
  if (sorted.count(op_case.op()) > 0 && level != Level::cuda) bytes += kProductWorkspace;
  return bytes;
}

class OnGpu : public testing::TestWithParam<TracedRun> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
};

TEST_P(OnGpu, TakesWhatTheRealCallTakes) {
  const auto& [index, level, dtype] = GetParam();
  const OpCase& op_case = traced_cases()[index];
  CountedRun real;
  try {
    real_run(op_case, level, dtype);  // libraries allocate their own memory in the first call
    real = real_run(op_case, level, dtype);
  } catch (const c10::ValueError& refused) {
    EXPECT_THROW(traced_run(op_case, level, dtype, c10::kCUDA), c10::ValueError) << refused.what_without_backtrace();
    return;
  }
  const CountedRun traced = traced_run(op_case, level, dtype, c10::kCUDA);
  EXPECT_EQ(traced.tensors, real.tensors);
  const int64_t more = allowed(op_case, level);
  EXPECT_NEAR(static_cast<double>(traced.kept), static_cast<double>(real.kept), more > 0 ? kLargeBlocks : 0);
  EXPECT_NEAR(static_cast<double>(traced.most), static_cast<double>(real.most), static_cast<double>(more));
}

INSTANTIATE_TEST_SUITE_P(Traced, OnGpu,
                         testing::ValuesIn(traced_runs({Level::aten, Level::triton, Level::cuda}, {c10::kCUDA})),
                         run_name);

}  // namespace
}  // namespace strata::kernels
