// SPDX-License-Identifier: MIT
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads of a group, P queries of a
// piece, D head width
#include "kernels/attention/attention_variances.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>

#include "kernels/attention/attention_group.h"
#include "kernels/attention/definition.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;

// Adds the variances of a group to the variances of all heads, by the errors of its pieces. P are probabilities, dP and
// dS the gradients of them and of the scores, and S the derivative of the softcap:
//   y = P v           dP = grad_y v^T    delta = sum(grad_y * y)    dS = P * (dP - delta) * S
//   dq = dS k scale   dk = dS^T q scale  dv = P^T grad_y            dsink = -sum(P_sink * delta)
struct GroupVariances {
  // The variances have a place for each head, and are zero for this group. sinks_variance is undefined without sinks.
  GroupVariances(const AttentionGroup& group, double roundoff, const AttentionVariances& y_variances,
                 const Heads& variances, const Tensor& sinks_variance)
      : group_(group),
        worst_variance_(roundoff * roundoff / 3),
        mean_variance_(roundoff * roundoff / (8 * std::numbers::ln2)),
        square_variance_(std::pow(roundoff, 4) * 3 / (64 * std::numbers::ln2) - mean_variance_ * mean_variance_),
        scale_(1 / std::sqrt(static_cast<double>(group.query.size(3)))),
        products_variance_(group.group_output(y_variances.product_variance)),
        squares_variance_(group.group_output(y_variances.square_variance)),
        query_variance_(variances.query_BKGQD.select(1, group.number)),
        key_variance_(variances.key_BKTD.select(1, group.number)),
        value_variance_(variances.value_BKTD.select(1, group.number)),
        sinks_variance_(sinks_variance.defined() ? group.group_sinks(sinks_variance) : sinks_variance) {}

  void add(const AttentionPiece& piece, const Tensor& grad_y) {
    const Tensor grad = piece.of(group_.group_output(grad_y)).to(group_.query.scalar_type());
    const Tensor query = piece.of(group_.query);
    const auto [probability, sink_probability] = probabilities(piece);
    const Tensor y = at::matmul(probability, group_.value);
    const Tensor square_products = at::matmul(y, group_.value.transpose(2, 3)).mul_(probability).square_();
    piece.of(products_variance_).copy_(square_products.sum(-1, /*keepdim=*/true).mul_(mean_variance_));
    const Tensor square_probability = probability.square(), square_value = group_.value.square();
    const Tensor fourth_powers =
        at::matmul(square_probability.square(), square_value.sum(-1, /*keepdim=*/true).square_());
    piece.of(squares_variance_).copy_(fourth_powers.mul_(square_variance_));
    const Tensor y_variance = at::matmul(square_probability, square_value).mul_(worst_variance_);
    const Tensor delta = (grad * y).sum(-1, /*keepdim=*/true);
    const Tensor delta_variance =
        ((y.square() * worst_variance_ + y_variance) * grad.square()).sum(-1, /*keepdim=*/true);
    if (sink_probability.defined()) {
      sinks_variance_.add_((sink_probability.square() * delta_variance).sum(at::IntArrayRef{0, 2, 3}));
    }

    const auto summed = [](const Tensor& pairs, const Tensor& rows) {  // over the queries of all heads: [B, T, D]
      return at::matmul(pairs.flatten(1, 2).transpose(1, 2), rows.square().flatten(1, 2));
    };
    value_variance_.add_(summed(square_probability, grad), worst_variance_);
    const Tensor scaled_probability = softcapped_probability(query, probability);
    const Tensor grad_scores = at::matmul(grad, group_.value.transpose(2, 3)).sub_(delta).mul_(scaled_probability);
    const Tensor delta_factor =
        at::matmul(scaled_probability, group_.key);  // what an error of delta is multiplied by in dq
    const Tensor square_grad_scores = grad_scores.square_().mul_(worst_variance_);
    const Tensor square_rows =
        at::matmul(square_grad_scores, group_.key.square()) + delta_variance * delta_factor.square();
    piece.of(query_variance_).copy_(square_rows.mul_(scale_ * scale_));
    key_variance_.add_(summed(square_grad_scores.add_(scaled_probability.square() * delta_variance), query),
                       scale_ * scale_);
  }

 private:
  struct Probabilities {
    Tensor keys, sink;  // [B, G, P, T] and [B, G, P, 1]
  };

  Probabilities probabilities(const AttentionPiece& piece) const {
    const Tensor scores =
        scores_by_definition(piece.of(group_.query), group_.key, group_.arguments_of(piece), group_.heads);
    const Tensor& sinks = group_.arguments.terms.sinks;
    if (!sinks.defined()) return {at::softmax(scores, -1), {}};
    const Tensor sink = sinks.view({-1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
    const Tensor with_sink = at::softmax(at::cat({scores, sink}, -1), -1);
    return {with_sink.narrow(-1, 0, scores.size(3)), with_sink.narrow(-1, scores.size(3), 1)};
  }

  // P * S
  Tensor softcapped_probability(const Tensor& query, const Tensor& probability) const {
    const double softcap = group_.arguments.terms.softcap;
    if (softcap == 0) return probability;
    const Tensor capped = at::matmul(query, group_.key.transpose(2, 3)).mul_(scale_ / softcap).tanh_();
    return capped.square_().neg_().add_(1).mul_(probability);
  }

  const AttentionGroup& group_;
  const double worst_variance_;   // relative variance of a rounding of numbers just above a power of two
  const double mean_variance_;    // relative variance of a rounding, its mean over all numbers
  const double square_variance_;  // variance of the squared relative error of a rounding
  const double scale_;
  const Tensor products_variance_, squares_variance_;  // [B, G, Q, 1]
  const Tensor query_variance_;                        // [B, G, Q, D]
  const Tensor key_variance_, value_variance_;         // [B, T, D]
  const Tensor sinks_variance_;                        // [G]
};

}  // namespace

AttentionVariances attention_variances(const Tensor& qkv, const Arguments& arguments, const Tensor& grad_y,
                                       double roundoff, int64_t elements) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = qkv.options().dtype(sum_type(qkv)).requires_grad(false);
  const Tensor& key_value = arguments.keys.key_value;
  const auto zero_rows = [&] { return at::zeros({grad_y.size(0), grad_y.size(1), arguments.heads}, options); };
  AttentionVariances variances = {zero_rows(), zero_rows(), {}};
  const AttentionOp::Gradient leaf_variances = {
      .qkv = at::zeros(qkv.sizes(), options),
      .sinks = arguments.terms.sinks.defined() ? at::zeros({arguments.heads}, options) : Tensor(),
      .key_value = key_value.defined() ? at::zeros(key_value.sizes(), options) : Tensor()};
  const Heads by_head = split_heads(leaf_variances.qkv, leaf_variances.key_value, arguments);
  for (int64_t number = 0; number < arguments.key_value_heads; ++number) {
    const AttentionGroup group(qkv, arguments, number);
    GroupVariances group_variances(group, roundoff, variances, by_head, leaf_variances.sinks);
    group.for_each_piece(elements, [&](const AttentionPiece& piece) { group_variances.add(piece, grad_y); });
  }
  variances.gradient_variances = gradients_in_leaf_order(leaf_variances);
  return variances;
}

}  // namespace strata::kernels
