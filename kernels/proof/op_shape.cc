// SPDX-License-Identifier: MIT
// N rows, D width, e bytes per element
#include "kernels/proof/op_shape.h"

#include <c10/util/Exception.h>

namespace strata::kernels {
namespace {

// Bytes of an int64 index; bytes of an fp32 mean, rstd or logsumexp per row.
constexpr double kIndex = 8, kStatistic = 4;

// Work of the forward and of the backward.
struct Both {
  Work forward, backward;
};

// With a sum, the forward moves residual, branch, sum and y. The backward moves the gradients of y and of the sum, the
// sum and its gradient.
Both norm(const OpShape& s, double e, bool with_sum, double statistics_of_row) {
  const double n = double(s.rows), d = double(s.width), vectors = s.bias ? 2 : 1;
  const double statistics = n * statistics_of_row * kStatistic;
  return {{(with_sum ? 4 : 2) * n * d * e + vectors * d * e + statistics, 0},
          {(with_sum ? 4 : 3) * n * d * e + (1 + vectors) * d * e + statistics, 0}};
}

Both linear(const OpShape& s, double e) {
  const double n = double(s.rows), i = double(s.width), o = double(s.outputs);
  const double bias = s.bias ? o : 0, pre_activation = s.activation == Activation::none ? 0 : n * o;
  const double product = 2 * n * i * o;
  return {{(n * i + i * o + n * o + bias + pre_activation) * e, product},
          {(2 * n * i + 2 * i * o + n * o + bias + pre_activation) * e, 2 * product}};
}

Both attention(const OpShape& s, double e) {
  const double qkv = double(s.rows * s.width * (s.heads + 2 * s.key_value_heads));
  const double y = double(s.rows * s.width * s.heads), statistics = double(s.rows * s.heads) * kStatistic;
  // A causal position attends to itself and to the positions before it. The backward has five products of this size,
  // the forward two.
  const double seen = s.causal ? double(s.positions + 1) / 2 : double(s.positions);
  const double flops = 4 * double(s.rows) * seen * double(s.heads * s.width);
  return {{(qkv + y) * e + statistics, flops}, {(2 * qkv + 2 * y) * e + statistics, 2.5 * flops}};
}

// Counts every row of x once, as if all of x stayed in the cache. An edge takes 4 bytes for its neighbor and 4 for its
// weight, a row 8 for its end. max stores the chosen edge in 4 bytes. Attention has two scores and a logsumexp in fp32
// for each head.
Both neighbors(const OpShape& s, double e) {
  const double n = double(s.rows), from = double(s.sources > 0 ? s.sources : s.rows), edges = double(s.edges);
  const double heads = s.heads > 0 ? double(s.heads) : 1, row = heads * double(s.width);
  const double matrices = (n + from) * row * e, sum = 2 * edges * row;
  const double graph = (s.weighted ? 8 : 4) * edges + 8 * n;
  if (s.op == "neighbor_attention") {
    const double scores = (2 * n + from) * heads * kStatistic;
    return {{matrices + graph + scores, sum}, {2 * matrices + graph + 2 * scores, 2 * sum}};
  }
  const double taken = s.reduction == Reduction::max ? 4 * n * row : 0;
  return {{matrices + graph + taken, sum}, {matrices + graph + taken, sum}};
}

Both work(const OpShape& s, double e) {
  const double n = double(s.rows), d = double(s.width), nd = n * d;
  if (s.op == "rms_norm") return norm(s, e, /*with_sum=*/false, 1);
  if (s.op == "add_rms_norm") return norm(s, e, /*with_sum=*/true, 1);
  if (s.op == "layer_norm") return norm(s, e, /*with_sum=*/false, 2);
  if (s.op == "add_layer_norm") return norm(s, e, /*with_sum=*/true, 2);
  if (s.op == "layer_norm_gelu_tanh") return norm(s, e, /*with_sum=*/false, 2);
  if (s.op == "activation") return {{2 * nd * e, 0}, {3 * nd * e, 0}};
  if (s.op == "swiglu") return {{3 * nd * e, 0}, {5 * nd * e, 0}};
  if (s.op == "dropout") return {{2 * nd * e, 0}, {2 * nd * e, 0}};
  if (s.op == "add_dropout") return {{3 * nd * e, 0}, {2 * nd * e, 0}};  // the gradient of the residual is that of y
  if (s.op == "rotary") {  // v is not rotated; there are two fp32 tables of half a head
    const double turned = 2 * nd * double(s.heads + s.key_value_heads) * e + double(s.positions * s.width) * 4;
    return {{turned, 0}, {turned, 0}};
  }
  if (s.op == "embedding") {
    return {{n * kIndex + 2 * nd * e, 0}, {n * kIndex + nd * e + double(s.outputs) * d * e, 0}};
  }
  // The forward computes the gradient in place, so a backward by a factor of 1 has nothing to do.
  if (s.op == "cross_entropy") return {{n * kIndex + 2 * nd * e, 0}, {}};
  // The forward computes both gradients, that of the weight in fp32. The backward multiplies them by a number.
  if (s.op == "linear_cross_entropy") {
    const double weight = double(s.outputs) * d;
    return {{n * kIndex + 2 * nd * e + weight * (e + 4), 6 * n * weight}, {2 * nd * e + weight * (4 + e), 0}};
  }
  if (s.op == "adamw") return {adamw_work(d, e, e), {}};
  if (s.op == "global_norm") return {{d * e, 0}, {}};
  if (s.op == "neighbor_aggregate" || s.op == "neighbor_attention") return neighbors(s, e);
  if (s.op == "linear") return linear(s, e);
  if (s.op == "attention") return attention(s, e);
  TORCH_CHECK(false, "no bytes and FLOPs are known of op ", s.op);
}

}  // namespace

std::string text(const OpShape& s) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  if (s.op == "adamw" || s.op == "global_norm") return number(s.width);
  if (s.op == "attention" || s.op == "rotary") {
    std::string result = number(s.rows / s.positions) + "x" + number(s.positions) + " positions, " + number(s.heads);
    if (s.key_value_heads != s.heads) result += "/" + number(s.key_value_heads);
    result += " heads of " + number(s.width);
    if (s.op == "attention") result += s.causal ? ", causal" : ", full";
    if (s.deterministic) result += ", deterministic";
    return result;
  }
  const std::string sources = s.sources > 0 ? " from " + number(s.sources) : "";
  if (s.op == "neighbor_attention") {
    return number(s.rows) + "x" + number(s.heads) + "x" + number(s.width) + sources + ", " + number(s.edges) + " edges";
  }
  std::string result = number(s.rows) + "x" + number(s.width);
  if (s.op == "neighbor_aggregate") {
    return result + sources + ", " + number(s.edges) + (s.weighted ? " weighted" : "") + " edges " +
           std::string(name(s.reduction));
  }
  if (s.op == "linear" || s.op == "linear_cross_entropy") result += "->" + number(s.outputs);
  if (s.op == "embedding") result += " of " + number(s.outputs);
  if (s.activation != Activation::none) result += " " + std::string(name(s.activation));
  if (s.bias) result += " bias";
  return result;
}

Work adamw_work(double elements, double gradient, double compute_copy) {
  return {elements * (6 * 4 + gradient + compute_copy), 0};
}

Work forward_work(const OpShape& shape, double element) { return work(shape, element).forward; }
Work backward_work(const OpShape& shape, double element) { return work(shape, element).backward; }

}  // namespace strata::kernels
