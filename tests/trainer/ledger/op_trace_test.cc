// SPDX-License-Identifier: MIT
// Checks that two traces of the same work agree, and that a trace names the first op whose result differs.
#include "trainer/ledger/op_trace.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace strata::trainer {
namespace {

using at::Tensor;
using Entries = std::vector<OpTrace::Entry>;
using Change = std::function<void(const Tensor&)>;

constexpr int64_t kLayers = 3;

void change_nothing(const Tensor& /*tensor*/) {}
void flip(const Tensor& tensor) { tensor.variable_data().mutable_data_ptr<float>()[0] *= 1.5f; }

// A forward and a backward of three layers. `change` sees the weight of layer 1 before, and `change_inside` the result
// of the first op of layer 1.
Entries trace_of(bool armed, const Change& change = change_nothing, const Change& change_inside = change_nothing) {
  OpTrace trace;
  if (armed) trace.arm();
  std::vector<Tensor> weights;
  std::vector<modules::Layer> layers;
  for (int64_t i = 0; i < kLayers; ++i) {
    const Tensor weight = ((at::arange(16).view({4, 4}) + i) / 16).to(at::kFloat).requires_grad_();
    weights.push_back(weight);
    layers.push_back(
        trace.wrap_layer(i, [weight, i, &change_inside](const modules::ResidualStream& stream, const auto&) {
          const Tensor noise = at::empty({100}).view({10, 10});  // its values are not those of the run before
          const Tensor product = at::matmul(stream.residual, weight);
          if (i == 1) change_inside(product);
          return modules::ResidualStream{at::tanh(product) * 0.1, {}};
        }));
  }
  change(weights[1]);
  const Tensor input = at::arange(8).view({2, 4}).to(at::kFloat);
  trace.begin({}, {});
  modules::ResidualStream stream{at::tanh(input), {}};
  for (const modules::Layer& layer : layers) stream = layer(stream, {});
  stream.residual.sum().backward();
  trace.end();
  const size_t count = trace.entries().size();
  at::tanh(input);  // is not recorded any more
  EXPECT_EQ(trace.entries().size(), count);
  return trace.entries();
}

std::string first_place(const Entries& one, const Entries& two) {
  const std::optional<size_t> first = first_difference(one, two);
  return first ? one.at(*first).place : "none";
}

TEST(OpTrace, TwoRunsOfTheSameWorkAgree) {
  const Entries entries = trace_of(true);
  EXPECT_EQ(first_place(entries, trace_of(true)), "none");
  EXPECT_EQ(entries.at(0).place, "outside of the layers: aten::tanh");
  const auto has = [&](const std::string& place) {
    return std::ranges::any_of(entries, [&](const auto& entry) { return entry.place == place; });
  };
  EXPECT_TRUE(has("layer 0, forward: aten::mm"));
  EXPECT_TRUE(has("layer 2, forward: residual that the layer returns"));
  EXPECT_TRUE(has("layer 2, backward: aten::mm"));
  EXPECT_TRUE(has("layer 1, backward: aten::tanh_backward"));
  for (const OpTrace::Entry& entry : entries) {
    EXPECT_EQ(entry.place.find("empty"), std::string::npos);
    EXPECT_EQ(entry.place.find("aten::view"), std::string::npos);
  }
}

TEST(OpTrace, NothingIsRecordedBeforeItIsArmed) { EXPECT_TRUE(trace_of(false).empty()); }

TEST(OpTrace, NamesTheFirstOpThatDiffers) {
  const Entries expected = trace_of(true);
  EXPECT_EQ(first_place(trace_of(true, flip), expected), "layer 1, forward: aten::mm");
  EXPECT_EQ(first_place(trace_of(true, change_nothing, flip), expected), "layer 1, forward: aten::tanh");
}

TEST(OpTrace, AnotherNumberOfOpsIsADifference) {
  const Entries one = {{"a", 1, false}, {"b", 2, false}};
  EXPECT_EQ(first_difference(one, {{"a", 1, false}}), std::optional<size_t>(1));
  EXPECT_EQ(first_difference(one, {{"a", 1, false}, {"c", 2, false}}), std::optional<size_t>(1));
  EXPECT_EQ(first_difference(one, one), std::nullopt);
}

TEST(OpTrace, WhatAttentionSavesForItsBackwardIsNotCompared) {
  const Tensor rows = at::arange(16).view({1, 1, 4, 4}).to(at::kFloat);
  OpTrace trace;
  trace.arm();
  trace.begin({}, {});
  at::_scaled_dot_product_flash_attention_for_cpu(rows, rows, rows);
  trace.end();
  const std::string place = "outside of the layers: aten::_scaled_dot_product_flash_attention_for_cpu";
  EXPECT_EQ(std::ranges::count(trace.entries(), place, &OpTrace::Entry::place), 1);
}

TEST(OpTrace, NamesTheFirstNan) {
  const auto spoil = [](const Tensor& tensor) { tensor.variable_data().mutable_data_ptr<float>()[0] = NAN; };
  const auto overflow = [](const Tensor& tensor) { tensor.variable_data().mutable_data_ptr<float>()[0] = INFINITY; };
  EXPECT_EQ(first_nan(trace_of(true)), std::nullopt);
  EXPECT_EQ(first_nan(trace_of(true, change_nothing, overflow)), std::nullopt);  // the tanh of infinity is 1
  const Entries entries = trace_of(true, change_nothing, spoil);
  ASSERT_TRUE(first_nan(entries).has_value());
  EXPECT_EQ(entries[*first_nan(entries)].place, "layer 1, forward: aten::tanh");
}

}  // namespace
}  // namespace strata::trainer
