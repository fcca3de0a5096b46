// SPDX-License-Identifier: MIT
// Checks which level each op of a module gets, by times that are made up.
#include "tools/bench/modules/best_levels.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"

namespace strata::tools {
namespace {

using kernels::Activation;
using kernels::Level;

// Seconds of one call of an op at a shape and a level. Without a time, the level does not agree there.
using Times = std::map<std::pair<std::string, Level>, double>;

MeasureLevels made_up(const Times& times) {
  return [times](const kernels::OpShape& shape, at::ScalarType dtype, at::Device, const std::vector<Level>& levels,
                 const std::function<void(const Measurement&)>& done) {
    for (const Level level : levels) {
      Measurement measured{shape, dtype, level, {}, {}};
      const auto found = times.find({title(shape, dtype), level});
      if (found != times.end()) measured.timing = Timing{.forward = found->second, .backward = {}, .whole = {}};
      done(measured);
    }
  };
}

// Three products of one shape, one of another, and an activation.
void forward() {
  const at::Tensor x = at::ones({4, 8}), narrow = at::ones({2, 8}), wide = at::ones({16, 8});
  for (int i = 0; i < 3; ++i) kernels::linear(x, narrow, {}, Activation::none, Level::aten);
  kernels::activation(kernels::linear(x, wide, {}, Activation::none, Level::aten), Activation::gelu, Level::aten);
}

// Returns the shapes as a message names them, in the order of the calls.
std::vector<std::string> titles() {
  std::vector<std::string> found;
  best_levels(forward, at::kFloat, at::kCPU,
              [&](const kernels::OpShape& shape, at::ScalarType dtype, at::Device, const std::vector<Level>&,
                  const std::function<void(const Measurement&)>&) { found.push_back(title(shape, dtype)); });
  return found;
}

TEST(BestLevels, AreThoseWhoseCallsTakeTheLeastTogether) {
  const std::vector<std::string> shapes = titles();
  ASSERT_EQ(shapes.size(), 3u);
  // Three calls of 10 and one of 30 take 60, three of 18 and one of 12 take 66. One call of each takes 40 and 30.
  Times times = {{{shapes[0], Level::aten}, 10},        {{shapes[1], Level::aten}, 30},
                 {{shapes[0], Level::torchscript}, 18}, {{shapes[1], Level::torchscript}, 12},
                 {{shapes[2], Level::aten}, 5},         {{shapes[2], Level::torchscript}, 4}};
  LevelChoice choice = best_levels(forward, at::kFloat, at::kCPU, made_up(times));
  EXPECT_EQ(choice.levels.linear, Level::aten);
  EXPECT_EQ(choice.levels.activation, Level::torchscript);
  EXPECT_DOUBLE_EQ(choice.microseconds, 64e6);

  times[{shapes[0], Level::torchscript}] = 15;  // 57 together
  EXPECT_EQ(best_levels(forward, at::kFloat, at::kCPU, made_up(times)).levels.linear, Level::torchscript);

  times.erase({shapes[1], Level::torchscript});  // it does not agree at one shape
  EXPECT_EQ(best_levels(forward, at::kFloat, at::kCPU, made_up(times)).levels.linear, Level::aten);

  times.erase({shapes[0], Level::aten});
  choice = best_levels(forward, at::kFloat, at::kCPU, made_up(times));
  EXPECT_EQ(choice.impossible, "linear");
}

}  // namespace
}  // namespace strata::tools
