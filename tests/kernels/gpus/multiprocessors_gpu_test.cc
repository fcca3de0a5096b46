// SPDX-License-Identifier: MIT
// Ops whose grids have the size of the GPU, as on GPUs with other numbers of multiprocessors: H20, A100, H100 with
// PCIe, L40S, RTX 5090. The code is that of this GPU. Rows keep their bits, and sums over rows agree with the formula.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "kernels/rms_norm/rms_norm_shape.h"
#include "kernels/sum_of_squares/sum_of_squares_shape.h"
#include "tests/kernels/workload_values.h"

namespace strata::kernels {
namespace {

constexpr int kOfHopper = 132, kOthers[] = {78, 108, 114, 142, 170};

// An op, and how many of its first values are the same for each number of multiprocessors: results first, and then
// the gradients of its inputs. A value after those is a sum over rows.
struct Sized {
  OpShape shape;
  size_t same;
  bool sums_differ = false;  // that sum has other bits with 78 multiprocessors: there is a block for each of 132
};

// Rows for one wave of blocks, for two and for three (waves.h). Clusters of cross_entropy have 1 to 8 blocks.
std::vector<Sized> sized() {
  std::vector<Sized> all;
  for (const auto& [rows, width] : {std::pair{100, 4096}, {3000, 1600}, {20'000, 4096}, {70'000, 4096}, {3000, 9000}}) {
    const bool many = rows >= 3000;
    all.push_back({RmsNormShape{.rows = rows, .width = width}, 2, many});
    all.push_back({LayerNormShape{.rows = rows, .width = width, .bias = true}, 2, many});
  }
  for (const auto& [rows, classes] : {std::pair{3000, 50'304}, {3000, 128'256}, {500, 400'000}}) {
    all.push_back({CrossEntropyShape{.rows = rows, .classes = classes}, 2});
  }
  // Our product with its gelu has a cluster for two multiprocessors.
  all.push_back(
      {LinearShape{.rows = 8192, .inputs = 768, .outputs = 3072, .activation = Activation::gelu_tanh, .bias = true},
       0});
  all.push_back({SumOfSquaresShape{.elements = 50'000'000}, 0});
  return all;
}

class SizedOnGpu : public testing::TestWithParam<Sized> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  }
  // Tests after these in the same process have the number that was asked for.
  void TearDown() override { set_multiprocessors(before_); }

 private:
  static int asked() {
    const char* count = std::getenv("STRATA_MULTIPROCESSORS");
    return count == nullptr ? 0 : std::atoi(count);
  }
  const int before_ = asked();
};

// Returns the results and the gradients of all leaves.
std::vector<Tensor> values_with(int count, const Workload& workload, Level level) {
  set_multiprocessors(count);
  return workload_values(workload, level);
}

TEST_P(SizedOnGpu, AgreesWithTheFormulaWithOtherNumbersOfMultiprocessors) {
  const auto& [shape, same, sums_differ] = GetParam();
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    Workload workload = make_workload(shape, dtype, at::Device(at::kCUDA, 0));
    workload.deterministic = true;  // cuBLASLt is not timed anew for each number
    for (const Level level : {Level::triton, Level::cuda}) {
      SCOPED_TRACE(std::string(name(level)) + " " + toString(dtype));
      set_multiprocessors(0);
      const Verdict gpu_verdict = verdict(workload, level);
      EXPECT_TRUE(gpu_verdict.agreed) << gpu_verdict.words;
      const std::vector<Tensor> hopper_values = values_with(kOfHopper, workload, level);
      for (const int count : kOthers) {
        SCOPED_TRACE(count);
        set_multiprocessors(count);
        const Verdict found = verdict(workload, level);
        EXPECT_TRUE(found.agreed) << found.words;
        const std::vector<Tensor> values = values_with(count, workload, level);
        for (size_t i = 0; i < same; ++i) EXPECT_TRUE(at::equal(values[i], hopper_values[i])) << "value " << i;
      }
    }
  }
}

// A gradient of a weight in fp32 has other last bits if the rows are split in another way: the number is used.
TEST_P(SizedOnGpu, SumsOverRowsDependOnTheNumber) {
  const auto& [shape, same, sums_differ] = GetParam();
  if (!sums_differ) return;
  const Workload workload = make_workload(shape, at::kFloat, at::Device(at::kCUDA, 0));
  for (const Level level : {Level::triton, Level::cuda}) {
    SCOPED_TRACE(name(level));
    const std::vector<Tensor> hopper_values = values_with(kOfHopper, workload, level);
    EXPECT_TRUE(at::equal(values_with(kOfHopper, workload, level)[same], hopper_values[same]));
    EXPECT_FALSE(at::equal(values_with(78, workload, level)[same], hopper_values[same]));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, SizedOnGpu, testing::ValuesIn(sized()), [](const auto& info) {
  return std::string(info.param.shape.op()) + "_" + std::to_string(info.index);
});

TEST(Multiprocessors, AreThoseOfTheGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  if (std::getenv("STRATA_MULTIPROCESSORS") != nullptr) GTEST_SKIP() << "not run: another number is asked for";
  EXPECT_EQ(multiprocessors(), at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
}

}  // namespace
}  // namespace strata::kernels
