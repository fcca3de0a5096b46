// SPDX-License-Identifier: MIT
// Products in a number format, against products in fp64 of operands that were rounded one by one.
#include "kernels/linear/quantized_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/quantize/quantize.h"
#include "modules/linear.h"
#include "modules/model_sources.h"
#include "tests/modules/linear_case.h"

namespace strata::modules {
namespace {

using kernels::Activation;
using kernels::Element;
using kernels::Level;
using kernels::ProductFormats;
using kernels::quantized_linear;
using kernels::QuantizedFormat;
using kernels::Scaling;

constexpr int64_t kInputs = 128, kOutputs = 256;  // whole blocks of all formats

const std::map<std::string, ProductFormats> kFormats = {
    {"fp8 current", {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}}},
    {"fp8 row", {{Element::e4m3, Scaling::row}, {Element::e5m2, Scaling::row}}},
    {"fp8 block", {{Element::e4m3, Scaling::block}, {Element::e5m2, Scaling::block}}},
    {"mxfp8", {{Element::e4m3, Scaling::mx}, {Element::e4m3, Scaling::mx}}},
    {"mxfp6", {{Element::e3m2, Scaling::mx}, {Element::e3m2, Scaling::mx}}},
    {"mxfp4", {{Element::e2m1, Scaling::mx}, {Element::e2m1, Scaling::mx}}},
    {"nvfp4", {{Element::e2m1, Scaling::nv}, {Element::e2m1, Scaling::nv}}},
};

// Returns the operand as a matrix of fp64, after its rows were rounded.
Tensor rounded(const Tensor& matrix, QuantizedFormat format) {
  const Tensor rows = matrix.detach().contiguous();
  return kernels::rounded_to(rows, format, kernels::Rounding::nearest_even, /*key=*/{}).to(at::kDouble);
}

// [N, width] -> [width, M], where M is the next multiple of 128 and the columns after N are zeros. Blocks of 16 and 32
// fill up to less, but more blocks of zeros change no product.
Tensor filled_columns(const Tensor& rows) {
  const Tensor result = at::zeros({rows.size(1), (rows.size(0) + 127) / 128 * 128}, rows.options());
  result.narrow(1, 0, rows.size(0)).copy_(rows.detach().t());
  return result;
}

// Rows and columns of very different sizes, so that their scales differ.
Tensor uneven(at::IntArrayRef sizes) {
  const Tensor x = at::randn(sizes);
  return x * (at::randn(x.size(-1)) * 2).exp() * (at::randn({x.size(-2), 1}) * 2).exp();
}

struct Case : LinearCase {
  Case(at::ScalarType type, std::vector<int64_t> shape)
      : LinearCase(type, std::move(shape), kInputs, kOutputs, uneven) {}
};

void expect_products(const Case& given, const ProductFormats& formats, double tolerance) {
  const auto& [x, weight, bias, grad_y] = given;
  const Tensor y = quantized_linear(x, weight, bias, formats, Level::aten);
  y.backward(grad_y);
  const auto rows = [](const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}); };
  const auto& [values, gradients] = formats;

  const Tensor expected_y = at::mm(rounded(rows(x), values), rounded(weight, values).t()) + bias.to(at::kDouble);
  const Tensor expected_x = at::mm(rounded(rows(grad_y), gradients), rounded(weight.t(), values).t());
  const Tensor expected_weight =
      at::mm(rounded(filled_columns(rows(grad_y)), gradients), rounded(filled_columns(rows(x)), values).t());
  EXPECT_EQ(y.sizes(), grad_y.sizes());
  EXPECT_EQ(y.scalar_type(), x.scalar_type());
  EXPECT_LT(relative_difference(rows(y), expected_y), tolerance);
  EXPECT_LT(relative_difference(rows(x.grad()), expected_x), tolerance);
  EXPECT_LT(relative_difference(weight.grad(), expected_weight), tolerance);
  EXPECT_LT(relative_difference(bias.grad(), rows(grad_y).to(at::kDouble).sum(0)), tolerance);
  // Without rounding the products are others, so the numbers above can fail.
  EXPECT_GT(relative_difference(at::mm(rows(x), weight.detach().t()) + bias.detach(), expected_y), 4 * tolerance);
  // A row of one token has a scale of its own, with which fp8 row and fp8 block hold it exactly.
  const Tensor unrounded = at::mm(rows(grad_y).t(), rows(x));
  if (rows(x).size(0) > 1) {
    EXPECT_GT(relative_difference(unrounded, expected_weight), 4 * tolerance);
  }
}

TEST(QuantizedLinear, ItsProductsAreThoseOfRoundedOperands) {
  for (const auto& [name, formats] : kFormats) {
    SCOPED_TRACE(name);
    expect_products(Case(at::kFloat, {3, 13}), formats, 1e-5);  // 39 tokens: no multiple of a block
    expect_products(Case(at::kFloat, {2, 64}), formats, 1e-5);  // whole blocks
    expect_products(Case(at::kFloat, {1}), formats, 1e-5);
  }
}

// bf16 holds every value of these formats times a power of two. Products are rounded to bf16 at their end.
TEST(QuantizedLinear, ItsProductsHaveTheDtypeOfItsInputs) {
  for (const char* name : {"mxfp8", "mxfp6", "mxfp4"}) {
    SCOPED_TRACE(name);
    expect_products(Case(at::kBFloat16, {3, 13}), kFormats.at(name), 0.004);
  }
}

TEST(QuantizedLinear, GradientsGoToTheirDestinations) {
  const ProductFormats formats = kFormats.at("mxfp8");
  const Case returned(at::kFloat, {39}), written(at::kFloat, {39});
  const Tensor into = at::ones({kOutputs, kInputs}), bias_into = at::ones({kOutputs});
  add_gradients_to(written, into, bias_into);
  for (const Case* each : {&returned, &written}) {
    quantized_linear(each->x, each->weight, each->bias, formats, Level::aten).backward(each->grad_y);
  }
  EXPECT_TRUE(at::equal(into, returned.weight.grad() + 1));
  EXPECT_TRUE(at::equal(bias_into, returned.bias.grad() + 1));
  EXPECT_FALSE(written.weight.grad().defined());
  EXPECT_FALSE(written.bias.grad().defined());
  EXPECT_TRUE(at::equal(written.x.grad(), returned.x.grad()));
}

TEST(QuantizedLinear, RefusesWidthsThatBlocksDoNotDivide) {
  const Tensor x = at::randn({4, 48}), weight = at::randn({32, 48});
  EXPECT_ANY_THROW(quantized_linear(x, weight, /*bias=*/{}, kFormats.at("mxfp8"), Level::aten));
}

// A layer of a model, in the format of its module.
class LayerInFormat : public testing::Test {
 protected:
  Linear layer(const std::string& keep) {
    LinearFormatsConfig formats{.format = LinearFormat::nvfp4};
    if (!keep.empty()) formats.keep = {keep};
    BindingSource source(
        [this](const std::string& name) { return name.ends_with("bias") ? given_.bias : given_.weight; });
    const Scope scope = Scope(source, kernels_, &formats).layer("blocks.1") / "mlp" / "up";
    return {scope, {.outputs = kOutputs, .inputs = kInputs, .activation = Activation::gelu_tanh}};
  }

  const KernelsConfig kernels_;
  const Case given_{at::kFloat, {5, 7}};
};

TEST_F(LayerInFormat, AppliesItsActivationToTheProduct) {
  const auto& [x, weight, bias, grad_y] = given_;
  const Linear up = layer("");
  const Tensor product = quantized_linear(x, weight, bias, kFormats.at("nvfp4"), Level::aten);
  const Tensor expected = kernels::activation(product, Activation::gelu_tanh, Level::aten);
  EXPECT_TRUE(at::equal(up(x), expected));
  const auto [y, pre_activation] = up.with_pre_activation(x);
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(pre_activation, product));
  EXPECT_TRUE(at::equal(up.activated(pre_activation), expected));
}

TEST_F(LayerInFormat, IsKeptWithoutOne) {
  const auto& [x, weight, bias, grad_y] = given_;
  EXPECT_TRUE(at::equal(layer("blocks.1")(x), kernels::linear(x, weight, bias, Activation::gelu_tanh, Level::aten)));
  EXPECT_FALSE(at::equal(layer("blocks.0")(x), layer("blocks.1")(x)));
}

}  // namespace
}  // namespace strata::modules
