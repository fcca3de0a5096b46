// SPDX-License-Identifier: MIT
// Checks the definition, which every level is compared with, against plain loops. So definition and level cannot have
// the same error.
#include "kernels/rms_norm_rotary/rms_norm_rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/proof/plain_gradients.h"
#include "kernels/proof/plain_tensor.h"

namespace strata::kernels {
namespace {

constexpr int64_t kPositions = 3, kHeads = 2, kKeyValueHeads = 1, kHalf = 2, kWidth = 2 * kHalf;
constexpr int64_t kAllHeads = kHeads + 2 * kKeyValueHeads;
constexpr double kEps = 0.01;

struct Example {
  Plain qkv = ramp(kPositions * kAllHeads * kWidth), query = ramp(kWidth, 0.7), key = ramp(kWidth, 1.3);
  Plain cosine, sine;

  Example() {
    for (int64_t i = 0; i < kPositions * kHalf; ++i) {
      cosine.push_back(static_cast<float>(std::cos(0.5 * static_cast<double>(i))));
      sine.push_back(static_cast<float>(std::sin(0.5 * static_cast<double>(i))));
    }
  }
  const Plain& weight(int64_t head) const { return head < kHeads ? query : key; }
  double root(int64_t first) const {
    double square = 0;
    for (int64_t k = 0; k < kWidth; ++k) square += qkv[first + k] * qkv[first + k] / kWidth;
    return std::sqrt(square + kEps);
  }
  // Calls visit(first element of the head, position, head) for each head that is normalized.
  template <class Visit>
  void each_head(Visit visit) const {
    for (int64_t t = 0; t < kPositions; ++t) {
      for (int64_t head = 0; head < kHeads + kKeyValueHeads; ++head) visit((t * kAllHeads + head) * kWidth, t, head);
    }
  }
  Tensor table(const Plain& values) const { return tensor(values, {kPositions, kHalf}).to(at::kFloat); }
};

TEST(Formula, RmsNormRotary) {
  const Example e;
  Plain expected = e.qkv;
  e.each_head([&](int64_t first, int64_t t, int64_t head) {
    const double root = e.root(first);
    for (int64_t k = 0; k < kHalf; ++k) {
      const double x1 = e.qkv[first + k] / root * e.weight(head)[k];
      const double x2 = e.qkv[first + kHalf + k] / root * e.weight(head)[kHalf + k];
      const double c = e.cosine[t * kHalf + k], s = e.sine[t * kHalf + k];
      expected[first + k] = x1 * c - x2 * s;
      expected[first + kHalf + k] = x2 * c + x1 * s;
    }
  });
  const Tensor y = rms_norm_rotary(tensor(e.qkv, {1, kPositions, kAllHeads * kWidth}),
                                   {tensor(e.query, {kWidth}), tensor(e.key, {kWidth})}, e.table(e.cosine),
                                   e.table(e.sine), kHeads, kKeyValueHeads, kEps, kFormulaLevel);
  expect_equal(y, expected);
}

TEST(Formula, GradientsOfRmsNormRotary) {
  const Example e;
  const Plain grad_y = ramp(kPositions * kAllHeads * kWidth, 0.9);
  Plain qkv_gradient = grad_y, query_gradient(kWidth), key_gradient(kWidth);
  e.each_head([&](int64_t first, int64_t t, int64_t head) {
    const double root = e.root(first);
    Plain back(kWidth);
    for (int64_t k = 0; k < kHalf; ++k) {
      const double c = e.cosine[t * kHalf + k], s = e.sine[t * kHalf + k];
      back[k] = grad_y[first + k] * c + grad_y[first + kHalf + k] * s;
      back[kHalf + k] = grad_y[first + kHalf + k] * c - grad_y[first + k] * s;
    }
    double along = 0;
    for (int64_t k = 0; k < kWidth; ++k) along += back[k] * e.weight(head)[k] * e.qkv[first + k] / root / kWidth;
    for (int64_t k = 0; k < kWidth; ++k) {
      const double normed = e.qkv[first + k] / root;
      qkv_gradient[first + k] = (back[k] * e.weight(head)[k] - normed * along) / root;
      (head < kHeads ? query_gradient : key_gradient)[k] += back[k] * normed;
    }
  });
  const std::vector<int64_t> sizes = {1, kPositions, kAllHeads * kWidth};
  const Tensor qkv = tensor(e.qkv, sizes).requires_grad_(), query = tensor(e.query, {kWidth}).requires_grad_();
  const Tensor key = tensor(e.key, {kWidth}).requires_grad_();
  expect_gradients({qkv, query, key}, {tensor(grad_y, sizes)}, {qkv_gradient, query_gradient, key_gradient},
                   [&](Level level) {
                     return std::vector<Tensor>{rms_norm_rotary(qkv, {query, key}, e.table(e.cosine), e.table(e.sine),
                                                                kHeads, kKeyValueHeads, kEps, level)};
                   });
}

}  // namespace
}  // namespace strata::kernels
