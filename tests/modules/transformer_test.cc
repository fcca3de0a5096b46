// SPDX-License-Identifier: MIT
#include "modules/transformer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/runtime/call_observer.h"
#include "modules/rotary_tables.h"
#include "modules/transformer_block.h"
#include "trainer/memory/allocation_meter.h"

namespace strata::modules {
namespace {

// Every weight has the same value.
class Filled : public ModelSource {
 public:
  Filled(double value, at::ScalarType type) : value_(value), type_(type) {}
  Tensor parameter(const Group&, const Parameter& parameter) override {
    return at::full(parameter.shape, value_, type_).requires_grad_(true);
  }
  void op(const Group&, const std::string&, std::string_view, kernels::Level) override {}

 private:
  double value_;
  at::ScalarType type_;
};

TransformerConfig small() {
  return {.layers = 1, .width = 6, .heads = 1, .feed_forward = 10, .sequence = 4, .vocabulary = 9};
}

// sqrt(6) is 2.453125 in bfloat16. 1.5 * 2.453125 rounds to 3.6875, and 1.5 * sqrt(6) to 3.671875.
TEST(Transformer, TheScaleOfEmbeddingsHasTheirType) {
  TransformerConfig config = small();
  config.embedding_scale = std::nullopt;
  const KernelsConfig kernels;
  for (const auto& [type, expected] : {std::pair{at::kBFloat16, 3.6875}, std::pair{at::kFloat, 1.5 * std::sqrt(6.0)}}) {
    Filled source(1.5, type);
    Transformer model(config, Scope(source, kernels), /*has_fused_head=*/false);
    Tensor seen;
    model.wrap_layers([&](int64_t, Layer) -> Layer {
      return [&](const ResidualStream& stream, const StepContext&) { return seen = stream.residual, stream; };
    });
    model(at::arange(4).unsqueeze(0), {});
    EXPECT_TRUE(at::allclose(seen, at::full({1, 4, 6}, expected, type))) << type;
  }
}

// Remembers how many bytes were allocated as the MLP applied its activation.
struct BytesAtSwiglu : kernels::CallObserver {
  explicit BytesAtSwiglu(const trainer::AllocationMeter& meter) : meter(meter) {}
  void call(const kernels::OpShape& shape, kernels::Level, bool, at::ScalarType) override {
    if (shape.op() == "swiglu") bytes = meter.counts().current_bytes;
  }
  const trainer::AllocationMeter& meter;
  int64_t bytes = 0;
};

// Tensors that were allocated before the activation of the MLP are kept for the backward. The output of attention is
// not among them.
TEST(TransformerBlock, TheMlpRunsWithoutTheOutputOfAttention) {
  constexpr int64_t kTokens = 4;
  for (const NormPlacement placement : {NormPlacement::before, NormPlacement::after, NormPlacement::both}) {
    TransformerConfig config = small();
    config.norm_placement = placement;
    const KernelsConfig kernels;
    Filled source(0.5, at::kFloat);
    const TransformerBlock block(Scope(source, kernels).layer("blocks.0"), 0, block_config(config));
    StepContext context;
    context.put(std::make_shared<const RotaryTables>(rotary_tables(config, kTokens)));
    const ResidualStream input = {at::ones({1, kTokens, config.width}), at::ones({1, kTokens, config.width})};
    const trainer::AllocationMeter meter(at::kCPU);
    BytesAtSwiglu observer(meter);
    ResidualStream output;
    {
      const kernels::ObservedCalls observed(observer);
      output = block(input, context);
    }
    // The activated gate, the output of the MLP, and its norm with one number for each token.
    const int64_t normed = placement == NormPlacement::before ? 0 : config.width + 1;
    EXPECT_EQ(meter.counts().current_bytes - observer.bytes,
              kTokens * 4 * (config.feed_forward + config.width + normed))
        << static_cast<int>(placement);
  }
}

}  // namespace
}  // namespace strata::modules
