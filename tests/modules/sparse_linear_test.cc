// SPDX-License-Identifier: MIT
// Pruned weights against a sort of each group, and products with them against fp64.
#include "kernels/linear/sparse_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/runtime/traced.h"
#include "kernels/sparsity/prune.h"
#include "kernels/sparsity/sparse_products.h"
#include "modules/linear.h"
#include "modules/model_sources.h"
#include "tests/modules/linear_case.h"

namespace strata::modules {
namespace {

using kernels::Activation;
using kernels::kept_of_four;
using kernels::Level;
using kernels::pruned;
using kernels::sparse_linear;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// The definition: sorts each group of a row by magnitude and keeps the first two. [rows, width] -> bool.
Tensor kept_by_sorting(const Tensor& weight) {
  const Tensor values = weight.to(at::kDouble).contiguous();
  const Tensor kept = at::zeros(values.sizes(), at::kBool);
  const auto before = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
    return std::abs(a) > std::abs(b);
  };
  for (int64_t first = 0; first < values.numel(); first += 4) {
    const double* group = values.const_data_ptr<double>() + first;
    std::array<int, 4> order = {0, 1, 2, 3};
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return before(group[a], group[b]); });
    for (const int i : {order[0], order[1]}) kept.mutable_data_ptr<bool>()[first + i] = true;
  }
  return kept;
}

Tensor bits(const Tensor& x) { return x.contiguous().view(x.scalar_type() == at::kFloat ? at::kInt : at::kShort); }

void expect_pruned(const Tensor& weight) {
  const Tensor kept = kept_by_sorting(weight);
  EXPECT_TRUE(at::equal(kept_of_four(weight), kept));
  EXPECT_TRUE(at::equal(bits(pruned(weight)), bits(weight).masked_fill(kept.logical_not(), 0)));
  EXPECT_EQ(pruned(weight).scalar_type(), weight.scalar_type());
}

// Every group of four of these values: ties, signs, zeros, subnormal numbers, infinities and NaN.
Tensor hard_rows() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 1.5f, -6e-8f, infinity, -infinity, nan, -nan};
  std::vector<float> all;
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) {
        for (const float d : values) all.insert(all.end(), {a, b, c, d});
      }
    }
  }
  return at::tensor(all).view({250, 160});
}

TEST(Prune, KeepsTheTwoLargestOfEachFour) {
  for (const at::ScalarType type : kTypes) {
    SCOPED_TRACE(type);
    expect_pruned(hard_rows().to(type));
    at::manual_seed(3);
    expect_pruned(at::randn({33, 36}).to(type));
    expect_pruned((at::randn({33, 36}) * 2).round().to(type));  // many ties
    expect_pruned(at::zeros({0, 8}, type));
  }
}

TEST(Prune, AllNanAreEqual) {
  const Tensor codes = at::tensor({0x7f800001, 0x7fc00000, -1, 0x7fffffff}, at::kInt);
  EXPECT_TRUE(at::equal(kept_of_four(codes.view(at::kFloat)), at::tensor({1, 1, 0, 0}).to(at::kBool)));
}

TEST(Prune, TakesAnyStrides) {
  for (const at::ScalarType type : kTypes) {
    SCOPED_TRACE(type);
    at::manual_seed(4);
    const Tensor wide = at::randn({24, 40}).to(type);
    expect_pruned(wide.t());
    expect_pruned(wide.narrow(1, 3, 12));
    expect_pruned(wide.slice(1, 0, 40, 2).slice(0, 1, 24, 5));
    expect_pruned(wide[3].expand({5, 40}));
    EXPECT_TRUE(at::equal(kept_of_four(wide.view({2, 3, 4, 40})).view({24, 40}), kept_by_sorting(wide)));
  }
}

TEST(Prune, RefusesOtherWidthsAndTypes) {
  EXPECT_THROW(pruned(at::zeros({4, 6})), c10::ValueError);
  EXPECT_THROW(pruned(at::zeros({})), c10::ValueError);
  EXPECT_THROW(pruned(at::zeros({4, 8}, at::kDouble)), c10::ValueError);
}

constexpr int64_t kInputs = 36, kOutputs = 21;

struct Case : LinearCase {
  Case(at::ScalarType type, std::vector<int64_t> shape)
      : LinearCase(type, std::move(shape), kInputs, kOutputs, [](at::IntArrayRef sizes) { return at::randn(sizes); }) {}
};

void expect_products(const Case& given, Level level, double tolerance) {
  const auto& [x, weight, bias, grad_y] = given;
  const Tensor y = sparse_linear(x, weight, bias, level);
  y.backward(grad_y);
  const auto rows = [](const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}).to(at::kDouble); };
  const Tensor dense = rows(weight), zero_where_pruned = dense * kept_by_sorting(weight.detach());
  const Tensor expected = at::mm(rows(x), zero_where_pruned.t()) + rows(bias);
  EXPECT_EQ(y.sizes(), grad_y.sizes());
  EXPECT_EQ(y.scalar_type(), x.scalar_type());
  EXPECT_LT(relative_difference(rows(y), expected), tolerance);
  EXPECT_LT(relative_difference(rows(x.grad()), at::mm(rows(grad_y), zero_where_pruned)), tolerance);
  EXPECT_LT(relative_difference(rows(weight.grad()), at::mm(rows(grad_y).t(), rows(x))), tolerance);
  EXPECT_LT(relative_difference(rows(bias.grad()), rows(grad_y).sum(0, /*keepdim=*/true)), tolerance);
  // Products with all weights are others, so the numbers above can fail.
  EXPECT_GT(relative_difference(at::mm(rows(x), dense.t()) + rows(bias), expected), 0.1);
}

TEST(SparseLinear, ItsProductsAreThoseOfAPrunedWeight) {
  for (const Level level : {Level::aten, Level::torchscript}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 13}, {1}, {}}) {
      expect_products(Case(at::kFloat, shape), level, 1e-5);
    }
    expect_products(Case(at::kBFloat16, {3, 13}), level, 0.01);
  }
}

TEST(SparseLinear, HasNoBias) {
  const Case given(at::kFloat, {7}), same(at::kFloat, {7});
  const Tensor none = at::zeros({kOutputs});
  const Tensor y = sparse_linear(given.x, given.weight, /*bias=*/{}, Level::aten);
  y.backward(given.grad_y);
  EXPECT_TRUE(at::allclose(y, sparse_linear(same.x, same.weight, none, Level::aten)));
  EXPECT_TRUE(given.weight.grad().defined());
}

TEST(SparseLinear, GradientsGoToTheirDestinations) {
  const Case returned(at::kFloat, {39}), written(at::kFloat, {39});
  const Tensor into = at::ones({kOutputs, kInputs}), bias_into = at::ones({kOutputs});
  add_gradients_to(written, into, bias_into);
  for (const Case* each : {&returned, &written}) {
    sparse_linear(each->x, each->weight, each->bias, Level::aten).backward(each->grad_y);
  }
  EXPECT_TRUE(at::allclose(into, returned.weight.grad() + 1, /*rtol=*/1e-5, /*atol=*/1e-5));
  EXPECT_TRUE(at::equal(bias_into, returned.bias.grad() + 1));
  EXPECT_FALSE(written.weight.grad().defined());
  EXPECT_FALSE(written.bias.grad().defined());
  EXPECT_TRUE(at::equal(written.x.grad(), returned.x.grad()));
}

// The weight may change between steps, and the mask with it.
TEST(SparseLinear, PrunesTheWeightAsItIs) {
  const Case given(at::kFloat, {5});
  const Tensor before = sparse_linear(given.x, given.weight, given.bias, Level::aten);
  {
    const at::NoGradGuard no_grad;
    given.weight.copy_(given.weight.flip(1));
  }
  const Tensor y = sparse_linear(given.x, given.weight, given.bias, Level::aten);
  EXPECT_FALSE(at::equal(y, before));
  EXPECT_TRUE(at::equal(y, kernels::linear(given.x, pruned(given.weight), given.bias, Activation::none, Level::aten)));
}

// What a GPU would take, on a machine without one: the pruned weight, and what sparse tensor cores read of it.
TEST(SparseLinear, ATraceHasTheCompressedWeight) {
  kernels::Tracing tracing(c10::kCUDA);
  const int64_t sparse_rows = kernels::kFewestSparseRows;
  const auto most_bytes = [&](at::ScalarType type, int64_t inputs, int64_t rows) {
    const at::NoGradGuard no_grad;
    const auto options = at::device(at::kMeta).dtype(type);
    const Tensor x = at::empty({rows, inputs}, options), weight = at::empty({256, inputs}, options);
    const int64_t before = tracing.current_bytes();
    tracing.reset_peak();
    EXPECT_EQ(sparse_linear(x, weight, /*bias=*/{}, Level::cuda).sizes(), at::IntArrayRef({rows, 256}));
    return tracing.peak_bytes() - before;
  };
  const int64_t y = 2 * sparse_rows * 256;
  EXPECT_EQ(most_bytes(at::kBFloat16, 128, sparse_rows), 256 * 128 * 9 / 8 + y);
  EXPECT_EQ(most_bytes(at::kBFloat16, 128, 24), 2 * 256 * 128 + 2 * 24 * 256);  // emulated: too few rows
  EXPECT_EQ(most_bytes(at::kBFloat16, 16, sparse_rows), 256 * 16 * 9 / 8 + y);
  EXPECT_EQ(most_bytes(at::kHalf, 128, sparse_rows), 2 * 256 * 128 + y);      // emulated
  EXPECT_EQ(most_bytes(at::kBFloat16, 136, sparse_rows), 2 * 256 * 136 + y);  // emulated
  EXPECT_EQ(most_bytes(at::kFloat, 128, sparse_rows), 4 * 256 * 128 + 2 * y);
}

TEST(SparseLinear, RefusesWidthsThatFourDoesNotDivide) {
  EXPECT_THROW(sparse_linear(at::randn({4, 6}), at::randn({8, 6}), /*bias=*/{}, Level::aten), c10::ValueError);
  EXPECT_ANY_THROW(sparse_linear(at::randn({4, 4}), at::randn({8, 8}), /*bias=*/{}, Level::aten));
}

TEST(SparseLayer, AppliesItsActivationToTheProduct) {
  const Case given(at::kFloat, {5, 7});
  const KernelsConfig kernels;
  const SparsityConfig sparsity{.pattern = SparsityPattern::two_of_four, .only = "mlp"};
  const auto layer = [&](const char* part) {
    BindingSource source([&](const std::string& name) { return name.ends_with("bias") ? given.bias : given.weight; });
    const Scope scope = Scope(source, kernels, /*formats=*/nullptr, &sparsity).layer("blocks.1") / part / "up";
    return Linear(scope, {.outputs = kOutputs, .inputs = kInputs, .activation = Activation::gelu_tanh});
  };
  const Linear up = layer("mlp");
  const Tensor product = sparse_linear(given.x, given.weight, given.bias, Level::aten);
  const Tensor expected = kernels::activation(product, Activation::gelu_tanh, Level::aten);
  EXPECT_TRUE(at::equal(up(given.x), expected));
  const auto [y, pre_activation] = up.with_pre_activation(given.x);
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(pre_activation, product));
  EXPECT_TRUE(at::equal(layer("attention")(given.x),
                        kernels::linear(given.x, given.weight, given.bias, Activation::gelu_tanh, Level::aten)));
}

// A switch makes it the dense layer, with the gelu as epilogue, and the pruned one. Steps turn it between their calls.
TEST(SparseLayer, IsTheDenseOneWhileItsSwitchIsOff) {
  const Case given(at::kFloat, {5, 7});
  KernelsConfig kernels;
  kernels.levels.activation = Level::torchscript;  // it rounds another way than the epilogue of level aten
  const SparsityConfig sparsity{.pattern = SparsityPattern::two_of_four, .from_step = 4};
  const auto prunes = std::make_shared<bool>(false);
  const auto layer = [&](const SparsityConfig* layer_sparsity, std::shared_ptr<const bool> now) {
    BindingSource source([&](const std::string& name) { return name.ends_with("bias") ? given.bias : given.weight; },
                         /*scales_of=*/{}, std::move(now));
    const Scope scope = Scope(source, kernels, /*formats=*/nullptr, layer_sparsity).layer("blocks.1") / "mlp" / "up";
    return Linear(scope, {.outputs = kOutputs, .inputs = kInputs, .activation = Activation::gelu_tanh});
  };
  const Linear up = layer(&sparsity, prunes), dense = layer(nullptr, nullptr), always = layer(&sparsity, nullptr);
  const auto expect_same = [&](const Linear& other) {
    const auto [y, pre_activation] = up.with_pre_activation(given.x);
    const auto [expected, before] = other.with_pre_activation(given.x);
    EXPECT_TRUE(at::equal(bits(up(given.x)), bits(other(given.x))));
    EXPECT_TRUE(at::equal(bits(y), bits(expected)));
    EXPECT_TRUE(at::equal(bits(pre_activation), bits(before)));
    EXPECT_TRUE(at::equal(bits(up.activated(before)), bits(other.activated(before))));
  };
  const Tensor off = up(given.x);
  expect_same(dense);
  *prunes = true;
  expect_same(always);
  EXPECT_FALSE(at::equal(off, up(given.x)));
}

}  // namespace
}  // namespace strata::modules
