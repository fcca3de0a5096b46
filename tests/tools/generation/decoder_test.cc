// SPDX-License-Identifier: MIT
#include "tools/generation/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "kernels/runtime/call_observer.h"
#include "modules/config/block_config.h"
#include "tests/tools/generation/random_model.h"

namespace strata::generation {
namespace {

// The prompt fills more than the window. Each new token is the likeliest one, and the logits of every step are
// compared.
TEST(Decoder, StepsEqualWholeSequences) {
  const c10::InferenceMode inference;  // as in the programs
  for (const auto& [name, config] : test_models()) {
    const RandomModel model(config);
    Decoder decoder = model.decoder();
    std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
    Tensor logits = decoder.start({tokens}, config.sequence);
    for (int64_t step = 0; step < 64; ++step) {
      const Tensor expected = model.logits_after(tokens);
      ASSERT_TRUE(at::allclose(logits[0], expected, 1e-4, 1e-4)) << name << ", step " << step;
      tokens.push_back(expected.argmax().item<int64_t>());
      logits = decoder.next(expected.argmax().unsqueeze(0));
    }
  }
}

// Weights, caches and logits have 16 bits, and scores and shares are fp32. The largest logit is about 5.
void expect_steps_in(at::ScalarType type, double relative, double absolute) {
  const c10::InferenceMode inference;  // as in the programs
  for (const auto& [name, config] : test_models()) {
    const RandomModel model(config, type);
    Decoder decoder = model.decoder();
    std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
    Tensor logits = decoder.start({tokens}, 40);
    for (int64_t step = 0; step < 30; ++step) {
      ASSERT_EQ(logits.scalar_type(), type);
      const Tensor expected = model.logits_after(tokens);
      ASSERT_TRUE(at::allclose(logits[0].to(at::kFloat), expected.to(at::kFloat), relative, absolute))
          << name << ", step " << step;
      tokens.push_back(expected.argmax().item<int64_t>());
      logits = decoder.next(expected.argmax().unsqueeze(0));
    }
  }
}

TEST(Decoder, StepsInBf16) { expect_steps_in(at::kBFloat16, 0.05, 0.1); }

TEST(Decoder, StepsInFp16) { expect_steps_in(at::kHalf, 0.05 / 8, 0.1 / 8); }

// Another order of sums moves a few roundings to the next value, so steps are near the whole sequence and not equal to
// it. They are far from what the products of unrounded operands give.
TEST(Decoder, StepsInANumberFormat) {
  const c10::InferenceMode inference;  // as in the programs
  const modules::TransformerConfig config = changed([](modules::TransformerConfig& model) {
    model.width = 64;
    model.feed_forward = 64;
  });
  const RandomModel model(config, at::kFloat, {.format = modules::LinearFormat::mxfp4}), unrounded(config);
  Decoder decoder = model.decoder();
  std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  Tensor logits = decoder.start({tokens}, config.sequence);
  double to_whole = 0, to_unrounded = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const Tensor expected = model.logits_after(tokens);
    to_whole += (logits[0] - expected).abs().mean().item<double>();
    to_unrounded += (logits[0] - unrounded.logits_after(tokens)).abs().mean().item<double>();
    tokens.push_back(expected.argmax().item<int64_t>());
    logits = decoder.next(expected.argmax().unsqueeze(0));
  }
  EXPECT_LT(to_whole, 0.1 * to_unrounded);
}

// Collects the levels of all calls.
class CalledLevels : public kernels::CallObserver {
 public:
  std::set<kernels::Level> levels;
  void call(const kernels::OpShape&, kernels::Level level, bool, at::ScalarType) override { levels.insert(level); }
};

// The prompt has more rows than a step, so both of the models of a decoder are used.
TEST(Decoder, LogitsAreTheSameAtTheLevelsOfCpus) {
  const c10::InferenceMode inference;  // as in the programs
  for (const auto& [name, config] : test_models()) {
    const RandomModel model(config);
    for (const kernels::Level level : {kernels::Level::aten, kernels::Level::torchscript}) {
      Decoder decoder = model.decoder(at::kCPU, /*captures=*/true, modules::KernelsConfig{.default_level = level});
      CalledLevels called;
      std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 7};
      const kernels::ObservedCalls observed(called);
      Tensor logits = decoder.start({tokens}, config.sequence);
      EXPECT_EQ(called.levels, std::set{level}) << name;
      called.levels.clear();
      for (int64_t step = 0; step < 12; ++step) {
        ASSERT_TRUE(at::allclose(logits[0], model.logits_after(tokens), 1e-4, 1e-4)) << name << ", step " << step;
        tokens.push_back(logits[0].argmax().item<int64_t>());
        called.levels.clear();
        logits = decoder.next(logits.argmax(1));
        EXPECT_EQ(called.levels, std::set{level}) << name;
      }
    }
  }
}

TEST(Decoder, ARowIsTheSameInAnyBatch) {
  const c10::InferenceMode inference;  // as in the programs
  const Prompts prompts = {{8, 2, 7}, {5, 5, 30, 1, 0, 2, 9, 4, 4, 12, 6}, {1, 2, 3, 4}};
  for (const auto& [name, config] : test_models()) {
    const RandomModel model(config);
    Decoder together = model.decoder();
    std::vector<Decoder> alone;
    for (size_t row = 0; row < 3; ++row) alone.push_back(model.decoder());
    Tensor logits = together.start(prompts, 40);
    std::vector<Tensor> expected;
    for (size_t row = 0; row < 3; ++row) expected.push_back(alone[row].start({prompts[row]}, 40)[0]);
    for (int64_t step = 0; step < 20; ++step) {
      ASSERT_TRUE(at::allclose(logits, at::stack(expected), 1e-4, 1e-4)) << name << ", step " << step;
      const Tensor tokens = at::stack(expected).argmax(1);
      logits = together.next(tokens);
      for (size_t row = 0; row < 3; ++row) {
        expected[row] = alone[row].next(tokens[static_cast<int64_t>(row)].unsqueeze(0))[0];
      }
    }
  }
}

// A row that is full goes on without a position, and the others are as they were.
TEST(Decoder, AFullRowDisturbsNoOther) {
  const c10::InferenceMode inference;  // as in the programs
  const RandomModel model(changed([](modules::TransformerConfig&) {}));
  Decoder decoder = model.decoder();
  std::vector<int64_t> tokens = {7};
  decoder.start({{1, 2, 3, 4, 5}, tokens}, 8);
  Tensor logits;
  for (const int64_t token : {4, 9, 11, 2, 8, 6}) {
    tokens.push_back(token);
    logits = decoder.next(at::full({2}, token, at::kLong));
  }
  EXPECT_TRUE(at::allclose(logits[1], model.logits_after(tokens), 1e-4, 1e-4));
}

TEST(Decoder, AWindowKeepsItsReach) {
  const modules::TransformerConfig config = changed([](modules::TransformerConfig& model) {
    model.layer_overrides = {{.only = {1, 1}, .attention = "causal & window(5)"}};
  });
  const std::vector<Tensor> caches = modules::key_value_caches(modules::block_config(config), 3, 70, at::kFloat);
  const std::vector<int64_t> whole = {2, 3, 4, 70, 6}, window = {2, 3, 4, 5, 6};
  EXPECT_EQ(caches.at(0).sizes(), whole);
  EXPECT_EQ(caches.at(1).sizes(), window);
  EXPECT_EQ(caches.at(2).sizes(), whole);
}

}  // namespace
}  // namespace strata::generation
