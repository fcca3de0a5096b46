// SPDX-License-Identifier: MIT
// Checks that the state of a run comes back from its text, and that counts that are none are refused by name.
#include "trainer/run_state.h"

#include <gtest/gtest.h>

#include <string>

#include "base/errors.h"

namespace strata::trainer {
namespace {

RunState parse_with_step(const std::string& step) {
  return parse_run_state("{\"step\": " + step +
                         R"(, "updates": 6, "configuration": "c", "data": "d", "weights_sha256": "w"})");
}

TEST(RunState, ComesBackFromItsText) {
  const RunState state = parse_run_state(to_text({7, 6, "c", "d", "w"}));
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.updates, 6);
  EXPECT_EQ(state.configuration, "c");
  EXPECT_EQ(state.data, "d");
  EXPECT_EQ(state.weights_sha256, "w");
  EXPECT_FALSE(state.loss_scale);
  const RunState scaled = parse_run_state(to_text({7, 6, "c", "d", "w", LossScale::State{1024, 5}}));
  EXPECT_EQ(scaled.loss_scale.value().scale, 1024);
  EXPECT_EQ(scaled.loss_scale.value().finite_steps, 5);
}

TEST(RunState, RefusesALossScaleThatIsNone) {
  const std::string state = R"({"step": 7, "updates": 6, "configuration": "c", "data": "d", "weights_sha256": "w", )"
                            R"("loss_scale": {"finite_steps": )";
  EXPECT_EQ(parse_run_state(state + R"(1, "scale": 2}})").loss_scale.value().scale, 2);
  for (const char* scale : {"0", "-1", "1e39", "1e-50", "null", "\"7\""}) {
    EXPECT_THROW(parse_run_state(state + R"(1, "scale": )" + scale + "}}"), Error) << scale;
  }
  for (const char* steps : {"-1", "1.5", "2147483648"}) {
    EXPECT_THROW(parse_run_state(state + steps + R"(, "scale": 2}})"), Error) << steps;
  }
}

TEST(RunState, RefusesCountsThatAreNone) {
  EXPECT_EQ(parse_with_step("7").step, 7);
  for (const char* step : {"-1", "1.5", "7.0", "18446744073709551615", "18446744073709551616", "null", "\"7\""}) {
    try {
      parse_with_step(step);
      ADD_FAILURE() << step << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::storage);
      EXPECT_NE(std::string(error.what()).find("step is "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("whole number"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::trainer
