// SPDX-License-Identifier: MIT
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads of a group, P queries of a
// piece, D head width
#include "kernels/attention/attention_pieces.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/attention/definition.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {
namespace {

using Shape = AttentionOp::Shape;

// Heads one after another, as in the tensors of a call: [B, G, Q, D] -> [B, Q, G * D].
Tensor packed(const Tensor& by_head) { return by_head.transpose(1, 2).flatten(2); }

// A range of the queries of a call.
struct Piece {
  int64_t first, count;

  // Views the queries of this piece in a tensor of one group, [B, G, Q, D].
  Tensor of(const Tensor& group) const { return group.narrow(2, first, count); }
};

// One key and value head, and the query heads that share it.
struct Group {
  Group(const Tensor& qkv, const Shape& of_all, int64_t which) : number(which) {
    const auto copied = [&](const Tensor& heads) {
      return heads.select(1, which).detach().to(sum_type(qkv)).contiguous();
    };
    const Heads all = split_heads(qkv, of_all);
    query = copied(all.query_BKGQD);
    key = copied(all.key_BKTD).unsqueeze(1);
    value = copied(all.value_BKTD).unsqueeze(1);
    heads = {.first_head = which * query.size(1), .of_heads = of_all.heads};
    shape = {query.size(1), 1, of_all.mask, of_all.terms, {.first_query = of_all.keys.first_query}};
    if (shape.terms.sinks.defined()) {
      shape.terms.sinks = of_heads(shape.terms.sinks).detach().to(sum_type(qkv), false, /*copy=*/true);
    }
  }

  // Calls visit(piece) for ranges of queries whose scores have at most `elements` elements.
  template <class Visit>
  void for_each_piece(int64_t elements, Visit visit) const {
    const int64_t queries = query.size(2);
    const int64_t pairs_of_query = std::max<int64_t>(query.size(0) * query.size(1) * key.size(2), 1);
    const int64_t step = std::clamp<int64_t>(elements / pairs_of_query, 1, std::max<int64_t>(queries, 1));
    for (int64_t first = 0; first < queries; first += step) visit(Piece{first, std::min(step, queries - first)});
  }

  Shape shape_of(const Piece& piece) const {
    Shape result = shape;
    result.keys.first_query += piece.first;
    return result;
  }

  // Views what this group has of sinks [H], and of a tensor like y, as [B, G, Q, D].
  Tensor of_heads(const Tensor& sinks) const { return sinks.narrow(0, heads.first_head, query.size(1)); }
  Tensor of_output(const Tensor& y) const {
    return y.unflatten(2, {heads.of_heads, -1}).narrow(2, heads.first_head, query.size(1)).transpose(1, 2);
  }
  // Views [B, P, G * D] as [B, G, P, D].
  Tensor by_head(const Tensor& rows) const { return rows.unflatten(2, {query.size(1), -1}).transpose(1, 2); }

  int64_t number;
  PartOfHeads heads;
  Tensor query, key, value;  // [B, G, Q, D], and [B, 1, T, D] twice, fp32 or wider
  Shape shape;               // shape of the group's heads, without keys and values
};

// Adds the variances of a group to the variances of all heads, by the errors of its pieces. P are probabilities, dP and
// dS the gradients of them and of the scores, and S the derivative of the softcap:
//   y = P v           dP = grad_y v^T    delta = sum(grad_y * y)    dS = P * (dP - delta) * S
//   dq = dS k scale   dk = dS^T q scale  dv = P^T grad_y            dsink = -sum(P_sink * delta)
struct GroupVariances {
  // The variances have a place for each head, and are zero for this group. sinks_variance is undefined without sinks.
  GroupVariances(const Group& group, double roundoff, const AttentionVariances& y_variances, const Heads& variances,
                 const Tensor& sinks_variance)
      : group_(group),
        worst_variance_(roundoff * roundoff / 3),
        mean_variance_(roundoff * roundoff / (8 * std::numbers::ln2)),
        square_variance_(std::pow(roundoff, 4) * 3 / (64 * std::numbers::ln2) - mean_variance_ * mean_variance_),
        scale_(1 / std::sqrt(static_cast<double>(group.query.size(3)))),
        products_variance_(group.of_output(y_variances.of_products)),
        squares_variance_(group.of_output(y_variances.of_squares)),
        query_variance_(variances.query_BKGQD.select(1, group.number)),
        key_variance_(variances.key_BKTD.select(1, group.number)),
        value_variance_(variances.value_BKTD.select(1, group.number)),
        sinks_variance_(sinks_variance.defined() ? group.of_heads(sinks_variance) : sinks_variance) {}

  void add(const Piece& piece, const Tensor& grad_y) {
    const Tensor grad = piece.of(group_.of_output(grad_y)).to(group_.query.scalar_type());
    const Tensor query = piece.of(group_.query);
    const auto [share, sink_share] = shares(piece);
    const Tensor y = at::matmul(share, group_.value);
    const Tensor square_products = at::matmul(y, group_.value.transpose(2, 3)).mul_(share).square_();
    piece.of(products_variance_).copy_(square_products.sum(-1, /*keepdim=*/true).mul_(mean_variance_));
    const Tensor square_share = share.square(), square_value = group_.value.square();
    const Tensor fourth_powers = at::matmul(square_share.square(), square_value.sum(-1, /*keepdim=*/true).square_());
    piece.of(squares_variance_).copy_(fourth_powers.mul_(square_variance_));
    const Tensor y_variance = at::matmul(square_share, square_value).mul_(worst_variance_);
    const Tensor delta = (grad * y).sum(-1, /*keepdim=*/true);
    const Tensor delta_variance =
        ((y.square() * worst_variance_ + y_variance) * grad.square()).sum(-1, /*keepdim=*/true);
    if (sink_share.defined()) {
      sinks_variance_.add_((sink_share.square() * delta_variance).sum(at::IntArrayRef{0, 2, 3}));
    }

    const auto summed = [](const Tensor& pairs, const Tensor& rows) {  // over the queries of all heads: [B, T, D]
      return at::matmul(pairs.flatten(1, 2).transpose(1, 2), rows.square().flatten(1, 2));
    };
    value_variance_.add_(summed(square_share, grad), worst_variance_);
    const Tensor steep = steep_share(query, share);
    const Tensor change = at::matmul(grad, group_.value.transpose(2, 3)).sub_(delta).mul_(steep);
    const Tensor common = at::matmul(steep, group_.key);  // what an error of delta is multiplied by in dq
    const Tensor square_change = change.square_().mul_(worst_variance_);
    const Tensor square_rows = at::matmul(square_change, group_.key.square()) + delta_variance * common.square();
    piece.of(query_variance_).copy_(square_rows.mul_(scale_ * scale_));
    key_variance_.add_(summed(square_change.add_(steep.square() * delta_variance), query), scale_ * scale_);
  }

 private:
  struct Shares {
    Tensor keys, sink;  // [B, G, P, T] and [B, G, P, 1]
  };

  Shares shares(const Piece& piece) const {
    const Tensor scores =
        scores_by_definition(piece.of(group_.query), group_.key, group_.shape_of(piece), group_.heads);
    const Tensor& sinks = group_.shape.terms.sinks;
    if (!sinks.defined()) return {at::softmax(scores, -1), {}};
    const Tensor sink = sinks.view({-1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
    const Tensor all = at::softmax(at::cat({scores, sink}, -1), -1);
    return {all.narrow(-1, 0, scores.size(3)), all.narrow(-1, scores.size(3), 1)};
  }

  // P * S
  Tensor steep_share(const Tensor& query, const Tensor& share) const {
    const double softcap = group_.shape.terms.softcap;
    if (softcap == 0) return share;
    const Tensor capped = at::matmul(query, group_.key.transpose(2, 3)).mul_(scale_ / softcap).tanh_();
    return capped.square_().neg_().add_(1).mul_(share);
  }

  const Group& group_;
  const double worst_variance_;   // relative variance of a rounding of numbers just above a power of two
  const double mean_variance_;    // relative variance of a rounding, its mean over all numbers
  const double square_variance_;  // variance of the squared relative error of a rounding
  const double scale_;
  const Tensor products_variance_, squares_variance_;  // [B, G, Q, 1]
  const Tensor query_variance_;                        // [B, G, Q, D]
  const Tensor key_variance_, value_variance_;         // [B, T, D]
  const Tensor sinks_variance_;                        // [G]
};

// Returns what is like the leaves of a call: qkv, keys and values, and sinks, if there are any.
std::vector<Tensor> in_order(const AttentionOp::Gradient& leaves) {
  std::vector<Tensor> results = {leaves.qkv};
  if (leaves.key_value.defined()) results.push_back(leaves.key_value);
  if (leaves.sinks.defined()) results.push_back(leaves.sinks);
  return results;
}

}  // namespace

std::vector<Tensor> attention_in_pieces(const Tensor& qkv, const Shape& shape, const Tensor& grad_y, int64_t elements) {
  const Tensor& sinks = shape.terms.sinks;
  const Tensor y = at::empty(grad_y.sizes(), qkv.options().requires_grad(false));
  AttentionOp::Gradient gradient = empty_gradient(qkv.detach(), shape);
  if (sinks.defined()) gradient.sinks = at::empty(sinks.sizes(), sinks.options().requires_grad(false));
  const Heads gradients_by_head = split_heads(gradient.qkv, gradient.key_value, shape);
  for (int64_t number = 0; number < shape.key_value_heads; ++number) {
    Group group(qkv, shape, number);
    Shape& own = group.shape;
    own.keys.key_value = packed(at::cat({group.key, group.value}, 1)).requires_grad_();
    std::vector<Tensor> leaves(sinks.defined() ? 3 : 2);  // queries of a piece, keys and values, and sinks
    leaves[1] = own.keys.key_value;
    if (sinks.defined()) leaves[2] = own.terms.sinks.requires_grad_();
    std::vector<Tensor> sums(leaves.size());
    for (size_t i = 1; i < leaves.size(); ++i) sums[i] = at::zeros_like(leaves[i]);
    group.for_each_piece(elements, [&](const Piece& piece) {
      leaves[0] = packed(piece.of(group.query)).requires_grad_();
      const Tensor result = attention_by_definition(leaves[0], group.shape_of(piece), group.heads);
      const Tensor grad = packed(piece.of(group.of_output(grad_y))).to(result.scalar_type());
      const auto gradients = torch::autograd::grad({result}, leaves, {grad});
      piece.of(group.of_output(y)).copy_(group.by_head(result.detach()));
      piece.of(gradients_by_head.query_BKGQD.select(1, number)).copy_(group.by_head(gradients[0]));
      for (size_t i = 1; i < sums.size(); ++i) sums[i].add_(gradients[i]);
    });
    const auto key_value = sums[1].chunk(2, 2);
    gradients_by_head.key_BKTD.select(1, number).copy_(key_value[0]);
    gradients_by_head.value_BKTD.select(1, number).copy_(key_value[1]);
    if (sinks.defined()) group.of_heads(gradient.sinks).copy_(sums[2]);
  }
  std::vector<Tensor> results = in_order(gradient);
  results.insert(results.begin(), y);
  return results;
}

AttentionVariances attention_variances(const Tensor& qkv, const Shape& shape, const Tensor& grad_y, double roundoff,
                                       int64_t elements) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = qkv.options().dtype(sum_type(qkv)).requires_grad(false);
  const Tensor& key_value = shape.keys.key_value;
  const auto zero_rows = [&] { return at::zeros({grad_y.size(0), grad_y.size(1), shape.heads}, options); };
  AttentionVariances variances = {zero_rows(), zero_rows(), {}};
  const AttentionOp::Gradient leaf_variances = {
      .qkv = at::zeros(qkv.sizes(), options),
      .sinks = shape.terms.sinks.defined() ? at::zeros({shape.heads}, options) : Tensor(),
      .key_value = key_value.defined() ? at::zeros(key_value.sizes(), options) : Tensor()};
  const Heads by_head = split_heads(leaf_variances.qkv, leaf_variances.key_value, shape);
  for (int64_t number = 0; number < shape.key_value_heads; ++number) {
    const Group group(qkv, shape, number);
    GroupVariances group_variances(group, roundoff, variances, by_head, leaf_variances.sinks);
    group.for_each_piece(elements, [&](const Piece& piece) { group_variances.add(piece, grad_y); });
  }
  variances.of_gradients = in_order(leaf_variances);
  return variances;
}

}  // namespace strata::kernels
