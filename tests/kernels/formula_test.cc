// SPDX-License-Identifier: MIT
// Checks the formulas, which every level is compared with, against plain loops. So formula and level cannot have the
// same error.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/activation/activation_kind.h"
#include "kernels/adamw/adamw.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/global_norm/global_norm.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/swiglu/swiglu.h"
#include "tests/kernels/plain_tensor.h"

namespace strata::kernels {
namespace {

constexpr Level kFormula = Level::torchscript;

double plain_activation(double x, Activation kind) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
  }
  return NAN;
}

TEST(Formula, Linear) {
  const int64_t rows = 3, in = 4, out = 2;
  const Plain x = ramp(rows * in), weight = ramp(out * in), bias = ramp(out);
  for (const Activation kind : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    Plain expected;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < out; ++j) {
        double sum = bias[j];
        for (int64_t k = 0; k < in; ++k) sum += x[i * in + k] * weight[j * in + k];
        expected.push_back(plain_activation(sum, kind));
      }
    }
    expect_equal(linear(tensor(x, {rows, in}), tensor(weight, {out, in}), tensor(bias, {out}), kind, kFormula),
                 expected);
  }
}

TEST(Formula, Norms) {
  const int64_t rows = 2, width = 5;
  const Plain residual = ramp(rows * width), branch = ramp(rows * width, 0.3), weight = ramp(width, 0.7),
              bias = ramp(width);
  Plain sum, rms, layer, activated;
  for (int64_t i = 0; i < rows * width; ++i) sum.push_back(residual[i] + branch[i]);
  for (int64_t i = 0; i < rows; ++i) {
    double mean = 0, square = 0, variance = 0;
    for (int64_t k = 0; k < width; ++k) mean += sum[i * width + k] / width;
    for (int64_t k = 0; k < width; ++k) square += std::pow(sum[i * width + k], 2) / width;
    for (int64_t k = 0; k < width; ++k) variance += std::pow(sum[i * width + k] - mean, 2) / width;
    for (int64_t k = 0; k < width; ++k) {
      rms.push_back(sum[i * width + k] / std::sqrt(square + 0.01) * weight[k]);
      layer.push_back((sum[i * width + k] - mean) / std::sqrt(variance + 0.01) * weight[k] + bias[k]);
      activated.push_back(plain_activation(layer.back(), Activation::gelu_tanh));
    }
  }
  const Tensor r = tensor(residual, {rows, width}), b = tensor(branch, {rows, width}), s = tensor(sum, {rows, width});
  const Tensor w = tensor(weight, {width}), shift = tensor(bias, {width});
  expect_equal(rms_norm(s, w, 0.01, kFormula), rms);
  expect_equal(layer_norm(s, w, shift, 0.01, kFormula), layer);
  expect_equal(layer_norm_gelu_tanh(s, w, shift, 0.01, kFormula), activated);
  const NormedSum with_rms = add_rms_norm(r, b, w, 0.01, kFormula);
  expect_equal(with_rms.y, rms);
  expect_equal(with_rms.sum, sum);
  const NormedSum with_layer = add_layer_norm(r, b, w, shift, 0.01, kFormula);
  expect_equal(with_layer.y, layer);
  expect_equal(with_layer.sum, sum);
}

TEST(Formula, ActivationAndSwiglu) {
  const int64_t width = 6;
  const Plain x = ramp(2 * width);
  for (const Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
    Plain expected;
    for (const double value : x) expected.push_back(plain_activation(value, kind));
    expect_equal(activation(tensor(x, {2, width}), kind, kFormula), expected);
  }
  Plain expected;
  for (int64_t k = 0; k < width; ++k) expected.push_back(plain_activation(x[k], Activation::silu) * x[width + k]);
  expect_equal(swiglu(tensor(x, {1, 2 * width}), kFormula), expected);
}

TEST(Formula, Rotary) {
  const int64_t positions = 3, heads = 2, key_value_heads = 1, half = 2, all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(positions * all_heads * 2 * half);
  Plain cosine, sine, expected = qkv;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t k = 0; k < half; ++k) {
      const double angle = 0.5 * static_cast<double>(t * (k + 1));
      cosine.push_back(static_cast<float>(std::cos(angle)));
      sine.push_back(static_cast<float>(std::sin(angle)));
      for (int64_t head = 0; head < heads + key_value_heads; ++head) {
        const int64_t first = ((t * all_heads + head) * 2) * half + k, second = first + half;
        expected[first] = qkv[first] * cosine.back() - qkv[second] * sine.back();
        expected[second] = qkv[second] * cosine.back() + qkv[first] * sine.back();
      }
    }
  }
  const Tensor c = tensor(cosine, {positions, half}).to(at::kFloat), s = tensor(sine, {positions, half}).to(at::kFloat);
  expect_equal(rotary(tensor(qkv, {1, positions, all_heads * 2 * half}), c, s, heads, key_value_heads, kFormula),
               expected);
}

struct PlainMask {
  bool causal;
  int64_t window;
  std::vector<int32_t> document_offsets;  // empty: each row is a document
};

TEST(Formula, Attention) {
  const int64_t batch = 2, positions = 5, heads = 4, key_value_heads = 2, width = 3;
  const int64_t all_heads = heads + 2 * key_value_heads;
  const Plain qkv = ramp(batch * positions * all_heads * width);
  const auto at = [&](int64_t place, int64_t head, int64_t k) { return qkv[(place * all_heads + head) * width + k]; };
  for (const PlainMask& mask : {PlainMask{false, 0, {}}, PlainMask{true, 0, {}}, PlainMask{true, 2, {}},
                                PlainMask{false, 0, {0, 2, 5, 5, 9, 10}}, PlainMask{true, 2, {0, 5, 8, 10}}}) {
    const auto document = [&](int64_t place) {
      if (mask.document_offsets.empty()) return place / positions;
      int64_t ended = 0;
      for (const int32_t offset : mask.document_offsets) ended += offset <= place;
      return ended;
    };
    Plain expected(batch * positions * heads * width);
    for (int64_t t = 0; t < batch * positions; ++t) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t key = heads + head / (heads / key_value_heads), value = key + key_value_heads;
        Plain weights(batch * positions);
        double total = 0;
        for (int64_t u = 0; u < batch * positions; ++u) {
          if (document(t) != document(u) || (mask.causal && u > t) || (mask.window > 0 && u + mask.window <= t))
            continue;
          double score = 0;
          for (int64_t k = 0; k < width; ++k) score += at(t, head, k) * at(u, key, k);
          weights[u] = std::exp(score / std::sqrt(static_cast<double>(width)));
          total += weights[u];
        }
        for (int64_t u = 0; u < batch * positions; ++u) {
          for (int64_t k = 0; k < width; ++k) {
            expected[(t * heads + head) * width + k] += weights[u] / total * at(u, value, k);
          }
        }
      }
    }
    AttentionMask given = {mask.causal, mask.window, {}};
    if (!mask.document_offsets.empty()) {
      const Plain offsets(mask.document_offsets.begin(), mask.document_offsets.end());
      given.document_offsets = tensor(offsets, {static_cast<int64_t>(offsets.size())}).to(at::kInt);
    }
    expect_equal(attention(tensor(qkv, {batch, positions, all_heads * width}), heads, key_value_heads, given, kFormula),
                 expected);
  }
}

TEST(Formula, Embedding) {
  const Plain weight = ramp(4 * 2);
  const Tensor indices = tensor({3, 0, 3}, {3}).to(at::kLong);
  expect_equal(embedding(indices, tensor(weight, {4, 2}), kFormula),
               {weight[6], weight[7], weight[0], weight[1], weight[6], weight[7]});
}

uint32_t mix(uint32_t hash) {
  hash = (hash ^ hash >> 16) * 0x7feb352du;
  hash = (hash ^ hash >> 15) * 0x846ca68bu;
  return hash ^ hash >> 16;
}

TEST(Formula, Dropout) {
  const int64_t rows = 5, columns = 7, first_row = (int64_t{1} << 32) - 2, site = 9;
  const int64_t key = -0x123456789abcdef;
  const double probability = 0.4;
  const Plain x = ramp(rows * columns);
  Plain expected;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t row = first_row + i;
      uint32_t hash = mix(static_cast<uint32_t>(key) ^ 0x9e3779b9u);
      hash = mix(static_cast<uint32_t>(key >> 32) ^ hash);
      hash = mix(static_cast<uint32_t>(site) ^ hash);
      hash = mix(static_cast<uint32_t>(row) ^ hash);
      hash = mix(static_cast<uint32_t>(row >> 32) ^ hash);
      hash = mix(hash ^ mix(static_cast<uint32_t>(k) + 0x9e3779b9u));
      expected.push_back(hash / 4294967296.0 < probability ? 0.0 : x[i * columns + k] / (1 - probability));
    }
  }
  const Tensor key_tensor = at::full({1}, key, at::kLong);
  expect_equal(dropout(tensor(x, {rows, columns}), probability, key_tensor, site, first_row, kFormula), expected);
  const Plain residual = ramp(rows * columns, 0.8);
  for (int64_t i = 0; i < rows * columns; ++i) expected[i] += residual[i];
  expect_equal(add_dropout(tensor(residual, {rows, columns}), tensor(x, {rows, columns}), probability, key_tensor, site,
                           first_row, kFormula),
               expected);
}

TEST(Formula, CrossEntropy) {
  const int64_t rows = 3, classes = 4;
  const Plain logits = ramp(rows * classes, 0.9);
  const std::vector<int64_t> targets = {2, -100, 0};
  for (const double smoothing : {0.0, 0.2}) {
    double loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (targets[i] < 0) continue;
      double total = 0;
      for (int64_t v = 0; v < classes; ++v) total += std::exp(logits[i * classes + v]);
      for (int64_t v = 0; v < classes; ++v) {
        const double wanted = (v == targets[i] ? 1 - smoothing : 0) + smoothing / classes;
        loss -= 0.5 * wanted * std::log(std::exp(logits[i * classes + v]) / total);
      }
    }
    const Tensor scale = at::full({}, 0.5, at::kFloat);
    const Tensor target_tensor = tensor({2, -100, 0}, {rows}).to(at::kLong);
    expect_equal(cross_entropy(tensor(logits, {rows, classes}), target_tensor, scale, -100, smoothing, kFormula),
                 {loss});
  }
}

TEST(Formula, LinearCrossEntropy) {
  const int64_t rows = 3, classes = 4, width = 2;
  const Plain hidden = ramp(rows * width), weight = ramp(classes * width, 0.8);
  const std::vector<int64_t> targets = {2, -100, 0};
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (targets[i] < 0) continue;
    Plain logits(classes);
    double total = 0;
    for (int64_t v = 0; v < classes; ++v) {
      for (int64_t k = 0; k < width; ++k) logits[v] += hidden[i * width + k] * weight[v * width + k];
      total += std::exp(logits[v]);
    }
    for (int64_t v = 0; v < classes; ++v) {
      const double wanted = (v == targets[i] ? 0.8 : 0) + 0.2 / classes;
      loss -= 0.5 * wanted * std::log(std::exp(logits[v]) / total);
    }
  }
  expect_equal(linear_cross_entropy(tensor(hidden, {rows, width}), tensor(weight, {classes, width}),
                                    tensor({2, -100, 0}, {rows}).to(at::kLong), at::full({}, 0.5, at::kFloat), -100,
                                    0.2, kFormula),
               {loss});
}

// Four sources and three targets. The last target has no edges; the first has one source twice.
struct PlainGraph {
  std::vector<int64_t> sources = {1, 3, 1, 0, 2}, targets = {0, 0, 0, 1, 1};
  NeighborGraph graph =
      NeighborGraph::from_edges(tensor(Plain(sources.begin(), sources.end()), {5}).to(at::kLong),
                                tensor(Plain(targets.begin(), targets.end()), {5}).to(at::kLong), 4, 3);
};

TEST(Formula, NeighborAggregate) {
  const PlainGraph edges;
  const int64_t width = 2;
  const Plain x = ramp(4 * width), weight = ramp(5, 0.9);
  Plain sum(3 * width), mean(3 * width), largest(3 * width, -INFINITY);
  const Plain degree = {3, 2, 0};
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t k = 0; k < width; ++k) {
      const int64_t at = edges.targets[e] * width + k;
      const double message = weight[e] * x[edges.sources[e] * width + k];
      sum[at] += message;
      mean[at] += message / degree[edges.targets[e]];
      largest[at] = std::max(largest[at], message);
    }
  }
  for (int64_t k = 0; k < width; ++k) largest[2 * width + k] = 0;
  const Tensor features = tensor(x, {4, width}), factors = tensor(weight, {5});
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::sum, kFormula), sum);
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::mean, kFormula), mean);
  expect_equal(neighbor_aggregate(features, edges.graph, factors, Reduction::max, kFormula), largest);
}

TEST(Formula, NeighborAttention) {
  const PlainGraph edges;
  const int64_t heads = 2, width = 3;
  const Plain x = ramp(4 * heads * width), from = ramp(4 * heads, 0.2), to = ramp(3 * heads, 0.7);
  const auto score = [&](size_t e, int64_t h) {
    const double sum = from[edges.sources[e] * heads + h] + to[edges.targets[e] * heads + h];
    return sum > 0 ? sum : 0.2 * sum;
  };
  Plain total(3 * heads), expected(3 * heads * width);
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t h = 0; h < heads; ++h) total[edges.targets[e] * heads + h] += std::exp(score(e, h));
  }
  for (size_t e = 0; e < edges.sources.size(); ++e) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t source = edges.sources[e] * heads + h, target = edges.targets[e] * heads + h;
      const double share = std::exp(score(e, h)) / total[target];
      for (int64_t k = 0; k < width; ++k) expected[target * width + k] += share * x[source * width + k];
    }
  }
  expect_equal(neighbor_attention(tensor(x, {4, heads, width}), tensor(from, {4, heads}), tensor(to, {3, heads}),
                                  edges.graph, 0.2, kFormula),
               expected);
}

TEST(Formula, Adamw) {
  const int64_t size = 5;
  const Plain master = ramp(size), first = ramp(size, 0.1), gradient = ramp(size, 0.6);
  const Plain second = {0.1, 0.2, 0.3, 0.4, 0.5};
  const double rate = 0.125, step = 3, factor = 0.5;  // exact in fp32
  Plain new_master, new_first, new_second;
  for (int64_t i = 0; i < size; ++i) {
    const double g = gradient[i] * factor;
    new_first.push_back(0.9 * first[i] + 0.1 * g);
    new_second.push_back(0.95 * second[i] + 0.05 * g * g);
    const double m = new_first[i] / (1 - std::pow(0.9, step)), v = new_second[i] / (1 - std::pow(0.95, step));
    new_master.push_back(master[i] * (1 - rate * 0.1) - rate * m / (std::sqrt(v) + 1e-8));
  }
  for (const double skip : {0.0, 1.0}) {
    Tensor m = tensor(master, {size}), f = tensor(first, {size}), s = tensor(second, {size}), copy;
    const auto scalar = [](double value) { return at::full({}, value, at::kFloat); };
    adamw(m, f, s, tensor(gradient, {size}), copy, {scalar(rate), scalar(step), scalar(factor), scalar(skip)},
          {0.9, 0.95, 1e-8, 0.1}, kFormula);
    expect_equal(m, skip == 0 ? new_master : master);
    expect_equal(f, skip == 0 ? new_first : first);
    expect_equal(s, skip == 0 ? new_second : second);
  }
}

TEST(Formula, GlobalNorm) {
  const Plain a = ramp(7), b = ramp(4, 0.2);
  double sum = 0;
  for (const double value : a) sum += value * value;
  for (const double value : b) sum += value * value;
  expect_equal(global_norm({tensor(a, {7}), tensor(b, {2, 2})}, kFormula), {sum});
}

}  // namespace
}  // namespace strata::kernels
