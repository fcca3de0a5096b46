// SPDX-License-Identifier: MIT
// Checks a recomputed tensor: its memory is free between forward and backward, and the gradients are the same bits.
#include "modules/selective_recompute.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace strata::modules {
namespace {

struct Gradients {
  Tensor x, weight;
};

template <class Product>
Gradients gradients(const Tensor& start, const Tensor& weights, const Product& product) {
  const Tensor x = start.clone().requires_grad_(true), weight = weights.clone().requires_grad_(true);
  at::sum(product(x, weight)).backward();
  return {x.grad(), weight.grad()};
}

TEST(RecomputedTensor, HasNoMemoryBetweenForwardAndBackward) {
  const Tensor x = at::rand({5, 7}), weight = at::rand({7});
  const Gradients expected =
      gradients(x, weight, [](const Tensor& x, const Tensor& weight) { return (x * 3) * weight; });
  int made = 0;
  Tensor seen;
  const Gradients actual = gradients(x, weight, [&](const Tensor& x, const Tensor& weight) {
    const auto make = [&made](const Tensor& source) { return ++made, source * 3; };
    const Tensor triple = make(x);
    const Tensor y = use_recomputed({triple, x, make}, [&](const Tensor& t) { return t * weight; });
    seen = triple.detach();
    EXPECT_EQ(seen.storage().data(), nullptr);
    EXPECT_EQ(made, 1);
    return y;
  });
  EXPECT_EQ(made, 2);
  EXPECT_TRUE(at::equal(actual.x, expected.x));
  EXPECT_TRUE(at::equal(actual.weight, expected.weight));
  EXPECT_TRUE(at::equal(seen, x * 3));  // filled again for the backward
}

// As at level aot_inductor, whose functions compute rows.
TEST(RecomputedTensor, MayBeAViewOfAnotherShape) {
  const Tensor x = at::rand({2, 5, 7}), weight = at::rand({7});
  const auto make = [](const Tensor& source) { return (source.flatten(0, 1) * 3).view(source.sizes()); };
  const Gradients expected =
      gradients(x, weight, [&](const Tensor& x, const Tensor& weight) { return make(x) * weight; });
  const Gradients actual = gradients(x, weight, [&](const Tensor& x, const Tensor& weight) {
    return use_recomputed({make(x), x, make}, [&](const Tensor& t) { return t * weight; });
  });
  EXPECT_TRUE(at::equal(actual.x, expected.x));
  EXPECT_TRUE(at::equal(actual.weight, expected.weight));
}

TEST(RecomputedTensor, IsKeptWhereNoBackwardFollows) {
  const c10::AutoGradMode disabled(false);
  const Tensor x = at::rand({3}), twice = x * 2;
  const Tensor y = use_recomputed({twice, x, [](const Tensor& source) { return source * 2; }},
                                  [](const Tensor& t) { return t + 1; });
  EXPECT_TRUE(at::equal(y, x * 2 + 1));
  EXPECT_TRUE(at::equal(twice, x * 2));
}

TEST(RecomputedTensor, IsNotMadeAgainForWhoSavedNothing) {
  const Tensor x = at::rand({3}).requires_grad_(true), twice = x * 2;
  int made = 0;
  const Tensor y = use_recomputed({twice, x, [&made](const Tensor& source) { return ++made, source * 2; }},
                                  [](const Tensor& t) { return t + 1; });
  EXPECT_NE(twice.storage().data(), nullptr);
  at::sum(y).backward();
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 2)));
}

TEST(RecomputedTensor, RefusesPartsOfAStorageAndOtherShapes) {
  const Tensor x = at::rand({4, 2}).requires_grad_(true);
  const auto sum = [](const Tensor& t) { return at::sum(t * t); };
  const Tensor row = (x * 2).select(0, 1);
  EXPECT_THROW(use_recomputed({row, x, [](const Tensor& source) { return (source * 2).select(0, 1); }}, sum),
               c10::Error);
  const Tensor twice = x * 2;
  const Tensor y = use_recomputed({twice, x, [](const Tensor& source) { return source.select(0, 0) * 2; }}, sum);
  EXPECT_THROW(y.backward(), c10::Error);
}

}  // namespace
}  // namespace strata::modules
