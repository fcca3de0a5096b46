// SPDX-License-Identifier: MIT
// Generation on a GPU: captured steps are those that are not captured, and both are those of the CPU.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "kernels/runtime/product_sums.h"
#include "tests/tools/generation/random_model.h"
#include "tools/generation/continue_prompts.h"
#include "tools/generation/decoder.h"

namespace strata::generation {
namespace {

// 16-bit types round more than the tolerance, so their steps are not compared with those of the CPU.
void check_captured_steps(const Prompts& prompts, at::ScalarType type = at::kFloat) {
  const auto last_row = static_cast<int64_t>(prompts.size()) - 1;
  for (const auto& [name, config] : test_models()) {
    const RandomModel model(config, type);
    Decoder captured = model.decoder(at::kCUDA), eager = model.decoder(at::kCUDA, /*captures=*/false);
    Decoder on_cpu = model.decoder();
    // The second round has another cache, and so another graph.
    for (const int64_t positions : {60, 70}) {
      captured.start(prompts, positions), on_cpu.start(prompts, positions);
      Tensor tokens = eager.start(prompts, positions).argmax(1);
      for (int64_t step = 0; step < 30; ++step) {
        const Tensor logits = captured.next(tokens), expected = eager.next(tokens);
        ASSERT_TRUE(at::equal(logits, expected)) << name << ", step " << step;
        if (type == at::kFloat) {
          ASSERT_TRUE(at::allclose(logits.cpu(), on_cpu.next(tokens.cpu()), 1e-3, 1e-3)) << name << ", step " << step;
        }
        tokens = expected.argmax(1);
        // A row that starts anew between replays.
        if (step == 12) {
          for (Decoder* decoder : {&captured, &eager, &on_cpu}) decoder->restart(last_row, {4, 4, 2});
        }
      }
    }
  }
}

TEST(DecoderOnGpu, CapturedStepsAreTheSame) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  kernels::accumulate_products_in_fp32();
  check_captured_steps({{8, 2, 7}, {5, 5, 30, 1, 0, 2, 9, 4, 4, 12, 6}, {1, 2, 3, 4}});
  check_captured_steps({{8, 2, 7}});  // products of one row have plans of their own
  // Products on tensor cores, which normalize their rows as 4 and as 8.
  check_captured_steps({{8, 2, 7}, {5, 5, 30}, {1, 2, 3, 4}}, at::kBFloat16);
  check_captured_steps({{8, 2, 7}, {5, 5, 30}, {1, 2, 3, 4}, {6, 1, 1}, {9, 9, 2}, {3, 1, 5}}, at::kBFloat16);
}

// The next step is queued before the host reads the tokens. Rows fill the context of 80 at different times.
TEST(ContinuePromptsOnGpu, TokensAreThoseOfEachStep) {
  if (!at::hasCUDA()) GTEST_SKIP() << "not run: there is no GPU";
  const c10::InferenceMode inference;
  kernels::accumulate_products_in_fp32();
  const RandomModel model(changed([](modules::TransformerConfig&) {}));
  const Prompts prompts = {{8, 2, 7}, std::vector<int64_t>(70, 3), {1, 2, 3, 4}};
  const Continuation how = {.tokens = 120, .sampling = {.temperature = 1}, .batch = 2};
  std::vector<Prompts> results;
  for (const bool captures : {true, false}) {
    Decoder decoder = model.decoder(at::kCUDA, captures);
    Prompts rows = prompts;
    continue_prompts(decoder, prompts, how, [&](size_t row, int64_t token) { rows[row].push_back(token); });
    results.push_back(rows);
  }
  EXPECT_EQ(results[0], results[1]);
  // Without a cache, on the CPU. Rounding may choose a neighbor in a few draws.
  std::vector<int64_t> context = prompts[0];
  int64_t others = 0;
  for (int64_t number = 0; number < 70; ++number) {
    const int64_t token = results[0][0].at(context.size());
    others += sample(model.logits_after(context).unsqueeze(0), how.sampling, number).item<int64_t>() != token;
    context.push_back(token);
  }
  EXPECT_LE(others, 2);
}

}  // namespace
}  // namespace strata::generation
