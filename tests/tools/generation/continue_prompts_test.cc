// SPDX-License-Identifier: MIT
#include "tools/generation/continue_prompts.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/errors.h"
#include "tests/tools/generation/random_model.h"

namespace strata::generation {
namespace {

modules::TransformerConfig small() {
  return {.layers = 2, .width = 16, .heads = 2, .feed_forward = 20, .sequence = 20, .vocabulary = 23};
}

Prompts continued(const Prompts& prompts, const Continuation& how) {
  const c10::InferenceMode inference;  // as in the programs
  const RandomModel model(small());
  Decoder decoder = model.decoder();
  Prompts rows(prompts.size());
  continue_prompts(decoder, prompts, how, [&](size_t row, int64_t token) { rows[row].push_back(token); });
  return rows;
}

TEST(ContinuePrompts, SeedsAndBatches) {
  const Prompts prompts = {{4}, {8, 2, 7, 7, 1, 0}, {1, 2, 3}};
  const Continuation how = {.tokens = 12, .sampling = {.temperature = 1.5, .top_k = 0, .seed = 5}};
  const Prompts together = continued(prompts, how);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(together[row].size(), 12U);
    EXPECT_EQ(continued({prompts[row]}, how)[0], together[row]) << row;
  }
  Continuation another = how;
  another.sampling.seed = 6;
  EXPECT_NE(continued(prompts, another), together);
  EXPECT_TRUE(continued(prompts, {.tokens = 0})[0].empty());
  for (const int64_t batch : {1, 2}) {
    Continuation in_parts = how;
    in_parts.batch = batch;
    EXPECT_EQ(continued(prompts, in_parts), together) << batch;
  }
}

TEST(ContinuePrompts, AsManyTokensAsANumberHolds) {
  Continuation how = {.tokens = std::numeric_limits<int64_t>::max()};
  for (int64_t token = 0; token < 23; ++token) how.stops.push_back(token);
  EXPECT_TRUE(continued({{4}}, how)[0].empty());
}

TEST(ContinuePrompts, LogitsThatAreNotFiniteAreAnError) {
  const c10::InferenceMode inference;  // as in the programs
  modules::TransformerConfig config = small();
  config.tied = false;  // so that NaN is in the rows that have the token only
  RandomModel model(config);
  model.weight("embedding.weight").select(0, 7).fill_(std::numeric_limits<float>::quiet_NaN());
  Decoder decoder = model.decoder();
  for (const double temperature : {0.0, 1.0}) {
    try {
      continue_prompts(decoder, {{4}, {1, 7, 2}}, {.sampling = {.temperature = temperature}}, [](size_t, int64_t) {});
      ADD_FAILURE() << temperature;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::numerics);
      EXPECT_STREQ(
          error.what(),
          "the logits of token 1 after prompt 2 are NaN or infinite; give --step with a checkpoint of an earlier "
          "step");
    }
  }
}

TEST(ContinuePrompts, AStopTokenEndsItsRow) {
  const Prompts prompts = {{4}, {1, 2, 3}};
  Continuation how = {.tokens = 12, .sampling = {.temperature = 2, .top_k = 0}};
  const Prompts free = continued(prompts, how);
  how.stops = {free[0][5], 22};
  const Prompts stopped = continued(prompts, how);
  for (size_t row = 0; row < 2; ++row) {
    std::vector<int64_t> expected;
    for (const int64_t token : free[row]) {
      if (token == how.stops[0] || token == 22) break;
      expected.push_back(token);
    }
    EXPECT_EQ(stopped[row], expected) << row;
  }
  EXPECT_LE(stopped[0].size(), 5U);
}

// Rows fill the context at different times, some of them twice.
TEST(ContinuePrompts, AFullContextGoesOnFromItsLastHalf) {
  const c10::InferenceMode inference;  // as in the programs
  const RandomModel model(small());
  const Prompts prompts = {{1, 2, 3, 4, 5, 6}, {9}, std::vector<int64_t>(19, 3)};
  const Prompts rows = continued(prompts, {.tokens = 35, .sampling = {.temperature = 0}});
  for (size_t row = 0; row < 3; ++row) {
    std::vector<int64_t> context = prompts[row];
    for (int64_t number = 0; number < 35; ++number) {
      context.push_back(model.logits_after(context).argmax().item<int64_t>());
      ASSERT_EQ(rows[row].at(static_cast<size_t>(number)), context.back()) << "row " << row << ", token " << number;
      if (context.size() > 20) context.erase(context.begin(), context.end() - 10);
    }
  }
}

std::string refusal(const Prompts& prompts, const std::string& attention, ExitCode expected, int64_t tokens = 10) {
  modules::TransformerConfig config = small();
  config.attention = attention;
  try {
    check_prompts(config, prompts, tokens);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected);
    return error.what();
  }
  return "";
}

TEST(CheckPrompts, Refusals) {
  const std::vector<int64_t> longest(19, 1), too_long(20, 1);
  EXPECT_EQ(refusal({longest}, "causal", ExitCode::done), "");
  EXPECT_EQ(refusal({{1}, too_long}, "causal", ExitCode::configuration),
            "prompt 2 has 20 tokens, and the context of the model 20; give a shorter one");
  EXPECT_EQ(refusal({{1}, {}}, "causal", ExitCode::configuration), "prompt 2 is empty; give it one token at least");
  EXPECT_EQ(refusal({{}}, "causal", ExitCode::configuration),
            "the prompt is empty; give --prompt TEXT or --prompt-ids IDS with one token at least");
  EXPECT_EQ(refusal({{1, 23}}, "causal", ExitCode::data), "token 23 of the prompt is outside of the vocabulary of 23");
  EXPECT_EQ(refusal({{1}}, "window(3)", ExitCode::configuration),
            "attention of layers 0-1 is window(3), so tokens see tokens after them that are not generated yet; samples "
            "need a model whose attention is causal, or sees ahead only inside of the prompt");
  EXPECT_EQ(refusal({{1, 2, 3}, {1, 2, 3, 4}}, "causal | prefix(3)", ExitCode::done), "");
  EXPECT_NE(refusal({{1, 2}, {1, 2, 3, 4}}, "causal | prefix(3)", ExitCode::configuration), "");
  // A row of 15 tokens has room for 6 more, of which the last is not computed. Then it goes on from 10.
  const std::vector<int64_t> long_one(15, 1);
  EXPECT_EQ(refusal({long_one}, "causal | prefix(12)", ExitCode::done, 6), "");
  EXPECT_NE(refusal({long_one}, "causal | prefix(12)", ExitCode::configuration, 7), "");
  EXPECT_EQ(refusal({long_one}, "causal | prefix(10)", ExitCode::done, 7), "");
}

}  // namespace
}  // namespace strata::generation
