// SPDX-License-Identifier: MIT
// Level cuda of attention at patterns of its own kernels, in rows so long that a tile of queries has more than 32
// steps. It is checked with as many blocks as the GPU has multiprocessors, and with two, which then have hundreds of
// tiles each.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/multiprocessors.h"
#include "kernels/op_proofs.h"
#include "kernels/proof/workload_check.h"
#include "kernels/runtime/product_sums.h"
#include "tests/kernels/workload_values.h"

namespace strata::kernels {
namespace {

struct LongRow {
  int64_t batch, positions, heads, key_value_heads, head_width;
  const char* pattern;
  int64_t documents = 1;
  bool sinks = false;

  AttentionShape shape() const {
    AttentionShape s = {batch, positions, heads, key_value_heads, head_width, parse_pattern(pattern)};
    s.documents = documents;
    s.terms.sinks = sinks;
    return s;
  }
};

// The first tile of `global` has a step for each tile of keys. A document that ends within a tile hides the earlier
// steps from some of its queries only.
const std::vector<LongRow> kLongRows = {
    {1, 20000, 2, 1, 64, "window(4) | global(1)"},
    {1, 20000, 2, 1, 128, "causal & (window(4000) | global(70))", 1, true},
    {1, 20000, 2, 2, 64, "documents & blocks(0.1, 1)", 5},
    {2, 9000, 4, 2, 64, "causal & dilated(600, 3)"},
    {2, 9000, 4, 2, 128, "causal & window(600) & documents", 7},
    {3, 5000, 4, 1, 64, "causal & (documents & window(2500) | global(9))", 3},
    {1, 9000, 3, 1, 128, "window(3000)"},
};

class LongRowsOnGpu : public testing::TestWithParam<LongRow> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
    if (!is_on_hopper(at::empty({1}, at::kCUDA))) GTEST_SKIP() << "not run: these kernels are for Hopper GPUs";
    accumulate_products_in_fp32();
  }
  void TearDown() override {
    set_multiprocessors(0);
    if (at::hasCUDA()) c10::cuda::CUDACachingAllocator::emptyCache();
  }
};

// An item of work is computed in the same way, whichever block has it.
TEST_P(LongRowsOnGpu, AgreeWithTheFormulaForAnyNumberOfBlocks) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Workload workload = make_workload(GetParam().shape(), dtype, at::Device(at::kCUDA, 0));
    std::vector<Tensor> first;
    for (const int blocks : {0, 2}) {
      set_multiprocessors(blocks);
      SCOPED_TRACE(std::string(c10::toString(dtype)) + ", set_multiprocessors(" + std::to_string(blocks) + ")");
      const Verdict found = verdict(workload, Level::cuda);
      EXPECT_TRUE(found.agreed) << found.words;
      std::printf("%s: error %.2f of what is allowed\n", GetParam().shape().text().c_str(), found.share);
      for (int call = 0; call < 2; ++call) {
        std::vector<Tensor> values = workload_values(workload, Level::cuda);
        if (first.empty()) first = std::move(values);
        for (size_t i = 0; i < values.size(); ++i)
          EXPECT_TRUE(at::equal(first[i], values[i])) << "other bits in result " << i;
      }
    }
  }
}

// A captured call has its work counter from the capture, and the documents and numbers of the replay.
TEST_P(LongRowsOnGpu, AReplayReadsWhatIsThereThen) {
  const LongRow& row = GetParam();
  const int64_t columns = (row.heads + 2 * row.key_value_heads) * row.head_width;
  const at::TensorOptions options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Tensor qkv = at::rand({row.batch, row.positions, columns}, options).requires_grad_();
  const Tensor sinks = row.sinks ? at::rand({row.heads}, options) : Tensor();
  AttentionMask mask = {parse_pattern(row.pattern), {}};
  const auto offsets = [&](int64_t first_end) {
    std::vector<int32_t> ends = {0};
    for (int64_t i = 0; i < row.batch; ++i) {
      ends.push_back(static_cast<int32_t>(i * row.positions + first_end));
      ends.push_back(static_cast<int32_t>((i + 1) * row.positions));
    }
    return at::tensor(ends, at::kInt).to(at::kCUDA);
  };
  if (row.documents > 1) mask.document_offsets = offsets(100);
  const Tensor grad_y = at::rand({row.batch, row.positions, row.heads * row.head_width}, options);
  const auto call = [&] {
    const Tensor y = attention(qkv, row.heads, row.key_value_heads, mask, {false, 0, sinks}, Level::cuda);
    return std::pair{y, torch::autograd::grad({y}, {qkv}, {grad_y})[0]};
  };
  at::cuda::CUDAGraph graph;
  std::pair<Tensor, Tensor> captured;
  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  c10::cuda::device_synchronize();
  call();
  c10::cuda::device_synchronize();
  graph.capture_begin();
  captured = call();
  graph.capture_end();
  if (row.documents > 1) mask.document_offsets.copy_(offsets(row.positions - 333));
  {
    const at::NoGradGuard no_grad;
    qkv.copy_(at::rand_like(qkv));
  }
  for (int replay = 0; replay < 3; ++replay) graph.replay();
  const auto [y, gradient] = call();
  EXPECT_TRUE(at::equal(captured.first, y));
  EXPECT_TRUE(at::equal(captured.second, gradient));
}

INSTANTIATE_TEST_SUITE_P(Patterns, LongRowsOnGpu, testing::ValuesIn(kLongRows));

}  // namespace
}  // namespace strata::kernels
