// SPDX-License-Identifier: MIT
// Linear layers with delayed scales, against products in fp64, and what their passes record.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/linear/quantized_linear.h"
#include "modules/linear.h"
#include "modules/model_sources.h"
#include "modules/recompute.h"
#include "tests/modules/linear_case.h"

namespace strata::modules {
namespace {

using kernels::DelayedScale;
using kernels::DelayedScales;
using kernels::Element;
using kernels::Level;
using kernels::ProductFormats;
using kernels::Scaling;

constexpr ProductFormats kFp8 = {{Element::e4m3, Scaling::tensor}, {Element::e5m2, Scaling::tensor}};
constexpr int64_t kInputs = 48, kOutputs = 32;

Tensor one(double number) { return at::full({1}, number, at::kFloat); }

DelayedScales scales_of(double x, double weight, double gradient) {
  return {{one(x), one(0)}, {one(weight), one(0)}, {one(gradient), one(0)}};
}

std::vector<float> recorded(const DelayedScales& scales) {
  return {scales.x.present.item<float>(), scales.weight.present.item<float>(), scales.gradient.present.item<float>()};
}

float largest(const Tensor& tensor) { return tensor.detach().abs().max().item<float>(); }

// Rounds to a format whose largest number stands for `past`, in fp64: to 4 significant bits of e4m3 or 3 of e5m2, or to
// multiples of the smallest number.
Tensor rounded(const Tensor& tensor, Element element, double past) {
  const kernels::ElementFacts facts = kernels::facts_of(element);
  const Tensor scaled = (tensor.detach().to(at::kDouble) * (facts.largest / past)).clamp(-facts.largest, facts.largest);
  const Tensor exponent = scaled.abs().log2().floor().clamp_min(facts.smallest_exponent());
  const Tensor step = (exponent - facts.mantissa_bits).exp2();
  return (scaled / step).round() * step * (past / facts.largest);
}

struct Case : LinearCase {
  Case() : LinearCase(at::kFloat, {3, 13}, kInputs, kOutputs, [](at::IntArrayRef sizes) { return at::randn(sizes); }) {}
};

Tensor rows(const Tensor& tensor) { return tensor.detach().reshape({-1, tensor.size(-1)}); }

TEST(DelayedLinear, ItsProductsHaveTheScalesOfTheHistory) {
  const Case given;
  const auto& [x, weight, bias, grad_y] = given;
  // Below and above the largest numbers at hand, and so that some saturate.
  for (const double factor : {0.5, 0.9, 3.0}) {
    const double x_scale = factor * largest(x), weight_scale = factor * largest(weight),
                 grad_scale = factor * largest(grad_y);
    const DelayedScales scales = scales_of(x_scale, weight_scale, grad_scale);
    for (const Tensor& leaf : {x, weight, bias}) leaf.mutable_grad() = Tensor();
    const Tensor y = kernels::quantized_linear(x, weight, bias, kFp8, Level::aten, scales);
    y.backward(grad_y);
    const Tensor q_x = rounded(rows(x), Element::e4m3, x_scale),
                 q_weight = rounded(weight, Element::e4m3, weight_scale);
    const Tensor q_grad = rounded(rows(grad_y), Element::e5m2, grad_scale);
    EXPECT_LT(relative_difference(rows(y), at::mm(q_x, q_weight.t()) + bias.detach()), 1e-5) << factor;
    EXPECT_LT(relative_difference(rows(x.grad()), at::mm(q_grad, q_weight)), 1e-5) << factor;
    EXPECT_LT(relative_difference(weight.grad(), at::mm(q_grad.t(), q_x)), 1e-5) << factor;
    EXPECT_EQ(recorded(scales), (std::vector<float>{largest(x), largest(weight), largest(grad_y)}));
    // With the scales of the values at hand the products are others, so the numbers above can fail.
    const Tensor current = kernels::quantized_linear(x, weight, bias, kFp8, Level::aten);
    EXPECT_GT(relative_difference(rows(current), rows(y)), 1e-3) << factor;
  }
}

TEST(DelayedLinear, WithoutAHistoryScalesAreThoseOfTheValues) {
  const Case given, plain;
  const DelayedScales scales = scales_of(0, 0, 0);
  const Tensor y = kernels::quantized_linear(given.x, given.weight, given.bias, kFp8, Level::aten, scales);
  y.backward(given.grad_y);
  const Tensor wanted = kernels::quantized_linear(plain.x, plain.weight, plain.bias, kFp8, Level::aten);
  wanted.backward(plain.grad_y);
  EXPECT_TRUE(at::equal(y, wanted));
  EXPECT_TRUE(at::equal(given.x.grad(), plain.x.grad()));
  EXPECT_TRUE(at::equal(given.weight.grad(), plain.weight.grad()));
  EXPECT_EQ(recorded(scales), (std::vector<float>{largest(given.x), largest(given.weight), largest(given.grad_y)}));
}

TEST(DelayedLinear, AForwardWithoutGradientsRecordsNothing) {
  const Case given;
  const DelayedScales scales = scales_of(2, 3, 4);
  const auto forward = [&] {
    return kernels::quantized_linear(given.x, given.weight, given.bias, kFp8, Level::aten, scales);
  };
  Tensor evaluated;
  {
    const at::NoGradGuard no_gradients;
    evaluated = forward();
  }
  EXPECT_EQ(recorded(scales), (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(at::equal(evaluated, forward()));  // the scales are those of the history all the same
  EXPECT_EQ(recorded(scales), (std::vector<float>{largest(given.x), largest(given.weight), 0}));
}

// A layer of a model, whose source has scales for one of two modules.
class DelayedLayer : public testing::Test {
 protected:
  Linear layer(const std::string& part) {
    BindingSource source(
        [this](const std::string& name) { return name.ends_with("bias") ? given_.bias : given_.weight; },
        [this](const std::string& module) {
          modules_.push_back(module);
          return scales_;
        });
    return {Scope(source, kernels_, &formats_).layer("blocks.1") / "mlp" / part,
            {.outputs = kOutputs, .inputs = kInputs}};
  }

  const Case given_;
  const DelayedScales scales_ = scales_of(2, 3, 4);
  const KernelsConfig kernels_;
  LinearFormatsConfig formats_{.format = LinearFormat::fp8, .scaling = LinearScaling::delayed, .keep = {"mlp.down"}};
  std::vector<std::string> modules_;  // whose scales were asked for
};

TEST_F(DelayedLayer, HasTheScalesOfItsName) {
  const Tensor y = layer("up")(given_.x);
  EXPECT_EQ(modules_, std::vector<std::string>{"blocks.1.mlp.up"});
  EXPECT_TRUE(at::equal(
      y, kernels::quantized_linear(given_.x, given_.weight, given_.bias, kFp8, Level::aten, scales_of(2, 3, 4))));
}

TEST_F(DelayedLayer, AsksForNoScalesWithoutNeedOfThem) {
  layer("down");
  formats_.scaling = LinearScaling::current;
  layer("up");
  formats_ = {.format = LinearFormat::mxfp8};
  layer("up");
  EXPECT_TRUE(modules_.empty());
}

// The first forward runs without gradients and the second one has the same scales, so each operand is recorded once.
TEST_F(DelayedLayer, RecomputesWithTheSameScales) {
  const Layer plain = [up = layer("up")](const ResidualStream& stream, const StepContext&) {
    return ResidualStream{up(stream.residual), {}};
  };
  const auto run = [&](const Layer& each) {
    for (const Tensor& leaf : {given_.x, given_.weight, given_.bias}) leaf.mutable_grad() = Tensor();
    for (const DelayedScale& scale : {scales_.x, scales_.weight, scales_.gradient}) scale.present.zero_();
    const Tensor y = each({given_.x, {}}, {}).residual;
    const std::vector<float> forward_amaxes = recorded(scales_);
    y.backward(given_.grad_y);
    return std::tuple(y.detach(), given_.x.grad(), given_.weight.grad(), forward_amaxes, recorded(scales_));
  };
  const auto [y, x_grad, weight_grad, forward_amaxes, all] = run(plain);
  const auto [again_y, again_x_grad, again_weight_grad, first_forward_amaxes, again_all] = run(recompute(plain));
  EXPECT_TRUE(at::equal(again_y, y));
  EXPECT_TRUE(at::equal(again_x_grad, x_grad));
  EXPECT_TRUE(at::equal(again_weight_grad, weight_grad));
  EXPECT_EQ(again_all, all);
  EXPECT_EQ(all, (std::vector<float>{largest(given_.x), largest(given_.weight), largest(given_.grad_y)}));
  EXPECT_EQ(forward_amaxes, (std::vector<float>{all[0], all[1], 0}));
  EXPECT_EQ(first_forward_amaxes, (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace strata::modules
