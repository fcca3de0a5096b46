// SPDX-License-Identifier: MIT
// B batch, T positions, H query heads, K key and value heads, G = H / K query heads of a group, Q queries of a piece,
// D head width
#include "kernels/attention/attention_pieces.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/attention/definition.h"

namespace strata::kernels {
namespace {

using Shape = AttentionOp::Shape;

at::ScalarType wide(const Tensor& tensor) { return c10::promoteTypes(tensor.scalar_type(), at::kFloat); }

// The queries, the key and the value of one group: [B, T, G or 1, D].
using Parts = std::array<Tensor, 3>;

Parts parts_of(const Tensor& packed, int64_t heads, int64_t key_value_heads, int64_t group) {
  const Tensor by_head = packed.unflatten(2, {heads + 2 * key_value_heads, -1});
  const int64_t size = heads / key_value_heads;
  return {by_head.narrow(2, group * size, size), by_head.narrow(2, heads + group, 1),
          by_head.narrow(2, heads + key_value_heads + group, 1)};
}

// One key and value head, and the query heads that share it.
struct Group {
  Group(const Tensor& all, const Shape& of_all, int64_t which)
      : number(which), size(of_all.heads / of_all.key_value_heads), first_head(which * size), of_heads(of_all.heads) {
    const Parts parts = parts_of(all.detach(), of_all.heads, of_all.key_value_heads, which);
    qkv = at::cat({parts[0], parts[1], parts[2]}, 2).flatten(2).to(wide(all));
    shape = {size, 1, of_all.mask, of_all.terms};
    if (shape.terms.sinks.defined()) {
      shape.terms.sinks = shape.terms.sinks.detach().narrow(0, first_head, size).to(wide(all), false, /*copy=*/true);
    }
  }

  // Calls visit(part) for ranges of queries whose scores have at most `elements` elements.
  template <class Visit>
  void for_each_part(int64_t elements, Visit visit) const {
    const int64_t batch = qkv.size(0), positions = qkv.size(1);
    const int64_t of_query = std::max<int64_t>(batch * size * positions, 1);
    const int64_t step = std::clamp<int64_t>(elements / of_query, 1, positions);
    for (int64_t first = 0; first < positions; first += step) {
      visit(DefinitionPart{first, std::min(step, positions - first), first_head, of_heads});
    }
  }

  // Views what a part has of a tensor like y: [B, Q, G, D].
  Tensor rows_of(const Tensor& y, const DefinitionPart& part) const {
    return y.unflatten(2, {of_heads, -1}).narrow(1, part.first_query, part.queries).narrow(2, first_head, size);
  }

  // Copies a tensor like its own qkv to its place in one like that of all heads.
  void write(const Tensor& of_group, const Tensor& of_all, int64_t key_value_heads) const {
    const Parts from = parts_of(of_group, size, 1, 0), to = parts_of(of_all, of_heads, key_value_heads, number);
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }

  int64_t number, size, first_head, of_heads;
  Tensor qkv;   // [B, T, (G + 2) * D], fp32 or wider
  Shape shape;  // of its heads
};

// Adds the variances of a group, by the errors of its parts. P are probabilities, dP and dS the gradients of them and
// of the scores, and S the derivative of the softcap:
//   y = P v           dP = grad_y v^T    delta = sum(grad_y * y)    dS = P * (dP - delta) * S
//   dq = dS k scale   dk = dS^T q scale  dv = P^T grad_y            dsink = -sum(P_sink * delta)
struct GroupVariances {
  GroupVariances(const Group& group, double roundoff) : group_(group), square_(roundoff * roundoff / 3) {
    const auto heads = [](const Tensor& rows) { return rows.transpose(1, 2).contiguous(); };
    const Parts parts = parts_of(group.qkv, group.size, 1, 0);
    query_ = heads(parts[0]), key_ = heads(parts[1]), value_ = heads(parts[2]);
    scale_ = 1 / std::sqrt(static_cast<double>(query_.size(3)));
    of_qkv = at::zeros_like(group.qkv);
    if (group.shape.terms.sinks.defined()) of_sinks = at::zeros_like(group.shape.terms.sinks);
  }

  void add(const DefinitionPart& part, const Tensor& grad_rows) {
    const Tensor grad = grad_rows.transpose(1, 2).to(query_.scalar_type());  // [B, G, Q, D]
    const Tensor query = query_.narrow(2, part.first_query, part.queries);
    const auto [share, of_sink] = shares(part);
    const Tensor y = at::matmul(share, value_);
    const Tensor of_y = at::matmul(share.square(), value_.square()).mul_(square_);
    const Tensor delta = (grad * y).sum(-1, /*keepdim=*/true);
    const Tensor of_delta = ((y.square() * square_ + of_y) * grad.square()).sum(-1, /*keepdim=*/true);
    if (of_sink.defined()) of_sinks.add_((of_sink.square() * of_delta).sum(at::IntArrayRef{0, 2, 3}));

    const auto [of_query, of_key, of_value] = parts_of(of_qkv, group_.size, 1, 0);
    const auto summed = [](const Tensor& pairs, const Tensor& rows) {  // over the queries of all heads: [B, T, 1, D]
      return at::matmul(pairs.flatten(1, 2).transpose(1, 2), rows.square().flatten(1, 2)).unsqueeze(2);
    };
    of_value.add_(summed(share.square(), grad), square_);
    const Tensor steep = steep_share(query, share);
    const Tensor change = at::matmul(grad, value_.transpose(2, 3)).sub_(delta).mul_(steep);
    const Tensor common = at::matmul(steep, key_);  // what an error of delta is multiplied by in dq
    const Tensor square_change = change.square_().mul_(square_);
    const Tensor of_rows = at::matmul(square_change, key_.square()) + of_delta * common.square();
    of_query.narrow(1, part.first_query, part.queries).copy_(of_rows.mul_(scale_ * scale_).transpose(1, 2));
    of_key.add_(summed(square_change.add_(steep.square() * of_delta), query), scale_ * scale_);
  }

  Tensor of_qkv;    // like qkv of the group
  Tensor of_sinks;  // [G]; undefined without sinks

 private:
  struct Shares {
    Tensor of_keys, of_sink;  // [B, G, Q, T] and [B, G, Q, 1]
  };

  Shares shares(const DefinitionPart& part) const {
    const Tensor scores = scores_by_definition(group_.qkv, group_.shape, part);
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
    const Tensor capped = at::matmul(query, key_.transpose(2, 3)).mul_(scale_ / softcap).tanh_();
    return capped.square_().neg_().add_(1).mul_(share);
  }

  const Group& group_;
  const double square_;  // variance of a rounding of 1
  double scale_;
  Tensor query_, key_, value_;  // [B, G or 1, T, D]
};

}  // namespace

std::vector<Tensor> attention_in_pieces(const Tensor& qkv, const Shape& shape, const Tensor& grad_y, int64_t elements) {
  std::vector<Tensor> results = {at::empty(grad_y.sizes(), qkv.options().requires_grad(false)),
                                 at::empty(qkv.sizes(), qkv.options().requires_grad(false))};
  const Tensor& sinks = shape.terms.sinks;
  if (sinks.defined()) results.push_back(at::empty(sinks.sizes(), sinks.options().requires_grad(false)));
  for (int64_t number = 0; number < shape.key_value_heads; ++number) {
    Group group(qkv, shape, number);
    std::vector<Tensor> leaves = {group.qkv.requires_grad_()};
    if (sinks.defined()) leaves.push_back(group.shape.terms.sinks.requires_grad_());
    std::vector<Tensor> sums;
    for (const Tensor& leaf : leaves) sums.push_back(at::zeros_like(leaf));
    group.for_each_part(elements, [&](const DefinitionPart& part) {
      const Tensor y = attention_by_definition(group.qkv, group.shape, part);
      const Tensor grad = group.rows_of(grad_y, part).to(y.scalar_type()).flatten(2);
      const auto gradients = torch::autograd::grad({y}, leaves, {grad});
      group.rows_of(results[0], part).copy_(y.detach().unflatten(2, {group.size, -1}));
      for (size_t i = 0; i < sums.size(); ++i) sums[i].add_(gradients[i]);
    });
    group.write(sums[0], results[1], shape.key_value_heads);
    if (sinks.defined()) results[2].narrow(0, group.first_head, group.size).copy_(sums[1]);
  }
  return results;
}

std::vector<Tensor> attention_variances(const Tensor& qkv, const Shape& shape, const Tensor& grad_y, double roundoff,
                                        int64_t elements) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = qkv.options().dtype(wide(qkv)).requires_grad(false);
  std::vector<Tensor> results = {Tensor(), at::empty(qkv.sizes(), options)};
  const bool has_sinks = shape.terms.sinks.defined();
  if (has_sinks) results.push_back(at::empty({shape.heads}, options));
  for (int64_t number = 0; number < shape.key_value_heads; ++number) {
    const Group group(qkv, shape, number);
    GroupVariances variances(group, roundoff);
    group.for_each_part(elements,
                        [&](const DefinitionPart& part) { variances.add(part, group.rows_of(grad_y, part)); });
    group.write(variances.of_qkv, results[1], shape.key_value_heads);
    if (has_sinks) results[2].narrow(0, group.first_head, group.size).copy_(variances.of_sinks);
  }
  return results;
}

}  // namespace strata::kernels
