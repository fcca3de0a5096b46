// SPDX-License-Identifier: MIT
// Inputs that are not finite, at every level. A NaN stays, so that a run that diverges is seen. A logit of -infinity is
// a class of probability 0.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kernels/activation/activation.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/linear/linear.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "tests/kernels/test_device.h"

namespace strata::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

class NotFinite : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (const char* reason = why_not_run(GetParam())) GTEST_SKIP() << reason;
  }
};

template <class Op>
bool has(Level level) {
  return Op::kKernels.slot(level).forward != nullptr;
}

TEST_P(NotFinite, ReluKeepsANan) {
  ASSERT_TRUE(has<ActivationOp>(GetParam()));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Tensor x = at::arange(-8, 8, at::kFloat);
    x[3].fill_(kNan);
    x[12].fill_(kNan);
    const Tensor y = activation(x.to(test_device(), dtype), Activation::relu, GetParam()).cpu().to(at::kFloat);
    for (int64_t i = 0; i < 16; ++i) {
      const double value = y[i].item<double>();
      if (i == 3 || i == 12) {
        EXPECT_TRUE(std::isnan(value)) << i << ": " << value;
      } else {
        EXPECT_EQ(value, std::max<double>(0.0, static_cast<double>(i - 8))) << i;
      }
    }
  }
}

// Products of unaligned matrices, and of odd widths, have other algorithms than those of aligned ones.
TEST_P(NotFinite, AProductWithReluKeepsANan) {
  ASSERT_TRUE(has<LinearOp>(GetParam()));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{16, 16}, {16, 21}, {300, 64}}) {
      for (const bool is_aligned : {true, false}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + ", " + std::to_string(rows) + " rows of " +
                     std::to_string(width) + (is_aligned ? "" : ", unaligned"));
        const auto on_device = [&](const Tensor& tensor) {
          const Tensor copy = tensor.to(test_device(), dtype);
          return is_aligned ? copy : unaligned(copy);
        };
        Tensor x = at::randn({rows, 16});
        x[3][5].fill_(kNan);
        const Tensor weight = at::randn({width, 16}), bias = at::randn({width});
        for (const Tensor& added : {Tensor(), on_device(bias)}) {
          const Tensor y = linear(on_device(x), on_device(weight), added, Activation::relu, GetParam()).cpu();
          const Tensor nan = y.isnan();
          EXPECT_TRUE(nan[3].all().item<bool>());
          EXPECT_EQ(nan.sum().item<int64_t>(), width);
        }
      }
    }
  }
}

// The edges of target 0 are more than a GPU gives to one warp. Target 2 has none.
TEST_P(NotFinite, TheMaximumOfNeighborsKeepsANan) {
  if (!has<NeighborAggregateOp>(GetParam())) GTEST_SKIP() << "there is no such level";
  const int64_t edges = 2 * kLongRow + 10, width = 16;
  const Tensor edge = at::arange(edges, at::kLong);
  const NeighborGraph graph =
      NeighborGraph::from_edges(edge.remainder(5), edge.ge(edges - 6).to(at::kLong), /*sources=*/5, /*targets=*/3);
  Tensor values = at::randn({5, width});
  values[2].slice(0, 0, 4).fill_(kNan);
  values.select(1, 4).fill_(-kInfinity);
  const Tensor x = values.to(test_device()).requires_grad_();
  const Tensor y = neighbor_aggregate(x, graph.to(test_device()), {}, Reduction::max, GetParam());
  y.backward(at::full({3, width}, 1.0, x.options().requires_grad(false)));
  const Tensor found = y.detach().cpu(), gradient = x.grad().cpu();
  for (int64_t target = 0; target < 3; ++target) {
    for (int64_t column = 0; column < width; ++column) {
      SCOPED_TRACE("target " + std::to_string(target) + ", column " + std::to_string(column));
      const double value = found[target][column].item<double>();
      if (target < 2 && column < 4) {
        EXPECT_TRUE(std::isnan(value)) << value;
      } else {
        EXPECT_EQ(value, target == 2 ? 0.0 : values.select(1, column).max().item<double>());
      }
    }
  }
  // Each of two targets gives its gradient to one edge, which is that of the NaN if there is one.
  EXPECT_TRUE(at::equal(gradient.sum(0), at::full({width}, 2.0))) << gradient;
  EXPECT_TRUE(at::equal(gradient[2].slice(0, 0, 4), at::full({4}, 2.0))) << gradient;
}

// The widths are those of a warp, of a block's registers, of a ring, and of rows that are not whole vectors.
TEST_P(NotFinite, AClassMayHaveALogitOfMinusInfinity) {
  ASSERT_TRUE(has<CrossEntropyOp>(GetParam()));
  for (const int64_t classes : {7, 256, 257, 1000, 20000}) {
    SCOPED_TRACE(classes);
    // On GPUs, rows of whole vectors need a package of their own at level aot_inductor, which the build does not make.
    if (GetParam() == Level::aot_inductor && test_device() == at::kCUDA && classes % 8 == 0) continue;
    Tensor values = at::randn({3, classes});
    values.select(1, 0).fill_(-kInfinity);
    const Tensor targets = at::arange(1, 4, at::kLong);
    targets[2].fill_(-100);
    const Tensor log_p = at::log_softmax(values.to(at::kDouble), 1);
    const double expected = -(log_p[0][1] + log_p[1][2]).item<double>();
    Tensor expected_gradient = log_p.exp();
    expected_gradient[0][1].sub_(1.0);
    expected_gradient[1][2].sub_(1.0);
    expected_gradient[2].zero_();
    const auto call = [&](const Tensor& logits) {
      return cross_entropy(logits, targets.to(test_device()), at::full({}, 1.0, at::kFloat).to(test_device()), -100,
                           /*label_smoothing=*/0, GetParam());
    };
    const Tensor leaf = values.to(test_device()).clone().requires_grad_();
    const Tensor loss = call(leaf * 1.0);  // the logits may be overwritten
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected, 1e-4);
    EXPECT_LT((leaf.grad().cpu().to(at::kDouble) - expected_gradient).abs().max().item<double>(), 1e-5);
    EXPECT_NEAR(call(values.to(test_device()).clone()).item<double>(), expected, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, NotFinite, testing::ValuesIn(levels_here()),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace strata::kernels
