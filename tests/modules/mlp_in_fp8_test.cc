// SPDX-License-Identifier: MIT
// Which gated MLPs take fp8_gated_linear(), and what they compute and save then. Tensors have no values.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/runtime/traced.h"
#include "modules/mlp.h"
#include "modules/model_sources.h"
#include "modules/selective_recompute.h"
#include "tests/modules/kernels_lines.h"

namespace strata::modules {
namespace {

using kernels::Activation;
using kernels::Level;

constexpr int64_t kTokens = 512, kInputs = 64, kFeedForward = 128;

Tensor leaf(at::IntArrayRef sizes) {
  return at::empty(sizes, at::device(at::kMeta).dtype(at::kBFloat16)).requires_grad_();
}

class MlpInFp8 : public testing::Test {
 protected:
  // The Function that made the input of the last product.
  std::string function_before_down(bool selective = false) const {
    StepContext context;
    if (selective) context.put(std::make_shared<const SelectiveRecompute>());
    const Tensor y = mlp()(leaf({2, kTokens / 2, kInputs}), context);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({2, kTokens / 2, kInputs}));
    return y.grad_fn()->next_edge(0).function->name();
  }

  // A forward keeps its product and two codes for the backward, with and without selective checkpointing.
  void expect_only_codes_are_saved() const {
    const auto kept_bytes = [this](bool selective) {
      const Mlp layer = mlp();
      StepContext context;
      if (selective) context.put(std::make_shared<const SelectiveRecompute>());
      const Tensor x = leaf({kTokens, kInputs});
      const int64_t before = tracing_.current_bytes();
      const Tensor y = layer(x, context);
      return tracing_.current_bytes() - before;
    };
    // The product in bf16, and the codes of x and of the output of swiglu; the rest is small.
    const int64_t saved = kTokens * (2 * kFeedForward * 2 + kInputs + kFeedForward), y = kTokens * kInputs * 2;
    EXPECT_EQ(kept_bytes(/*selective=*/false), kept_bytes(/*selective=*/true));
    EXPECT_GE(kept_bytes(/*selective=*/false), saved + y);
    EXPECT_LE(kept_bytes(/*selective=*/false), saved + y + (1 << 15));
  }

  Mlp mlp() const {
    BindingSource source([](const std::string& name) {
      const int64_t outputs = name.find("gate_up") != std::string::npos ? 2 * kFeedForward : kInputs;
      return name.ends_with("bias") ? leaf({outputs}) : leaf({outputs, outputs == kInputs ? kFeedForward : kInputs});
    });
    const Scope scope = Scope(source, kernels_, &formats_).layer("blocks.1") / "mlp";
    return {scope,
            {.inputs = kInputs,
             .feed_forward = kFeedForward,
             .outputs = kInputs,
             .gated = true,
             .activation = Activation::silu}};
  }

  kernels::Tracing tracing_{c10::kCUDA};
  KernelsConfig kernels_{.default_level = Level::cuda};
  LinearFormatsConfig formats_{.format = LinearFormat::fp8};
};

constexpr const char* kGated = "Fp8GatedLinear";

TEST_F(MlpInFp8, TakesTheGatedProduct) {
  EXPECT_NE(function_before_down().find(kGated), std::string::npos) << function_before_down();
  formats_.keep = {"blocks.0"};
  EXPECT_NE(function_before_down().find(kGated), std::string::npos) << function_before_down();
}

TEST_F(MlpInFp8, IsComputedInPartsWhereOnePartIsAnother) {
  const auto expect_parts = [this](const std::string& what) {
    EXPECT_EQ(function_before_down().find(kGated), std::string::npos) << what;
  };
  for (const char* keep : {"mlp", "mlp.gate_up", "mlp.down"}) {
    formats_.keep = {keep};
    expect_parts(keep);
  }
  formats_.keep = {};
  formats_.scaling = LinearScaling::row;
  expect_parts("another scaling");
  formats_.scaling = {};
  for (const auto& [module, op] : {std::pair{"mlp", &OpLevels::activation}, {"mlp.down", &OpLevels::linear}}) {
    kernels_.modules.clear();
    add_line(kernels_, module, op, Level::triton);
    expect_parts(module);
  }
}

// Its backward needs no outputs of activations, so nothing is recomputed.
TEST_F(MlpInFp8, SelectiveCheckpointingChangesNothing) {
  EXPECT_NE(function_before_down(/*selective=*/true).find(kGated), std::string::npos);
  formats_.scaling = LinearScaling::row;
  expect_only_codes_are_saved();
  formats_.scaling = {};
  expect_only_codes_are_saved();
}

}  // namespace
}  // namespace strata::modules
