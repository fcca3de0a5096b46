// SPDX-License-Identifier: MIT
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads per group, D head width
#include "kernels/attention/explicit_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;

at::TensorOptions sum_options(const Tensor& tensor) { return tensor.options().dtype(sum_type(tensor)); }

// Copies [B, K, G, Q, D] to [B * K, G * Q, D], or [B, K, T, D] to [B * K, T, D].
Tensor rows_of_groups(const Tensor& heads) {
  const Tensor copy = at::empty(heads.sizes(), sum_options(heads)).copy_(heads);
  return copy.view({heads.size(0) * heads.size(1), -1, heads.size(-1)});
}

struct Rows {
  Rows(const Tensor& qkv, const Arguments& arguments) : Rows(split_heads(qkv, arguments)) {}
  explicit Rows(const Heads& heads)
      : query(rows_of_groups(heads.query_BKGQD)),
        key(rows_of_groups(heads.key_BKTD)),
        value(rows_of_groups(heads.value_BKTD)),
        scale(1 / std::sqrt(static_cast<double>(query.size(2)))) {}

  Tensor query, key, value;
  double scale;
};

// Returns scores [B, H, Q, T], without the sink. With a softcap, `softcap_derivative` gets the derivative of the
// softcap at each score. Only backward asks for it.
Tensor scores_of(const Rows& rows, const Tensor& qkv, const Arguments& arguments,
                 Tensor* softcap_derivative = nullptr) {
  const int64_t queries = qkv.size(1), keys = arguments.keys.count(queries), first = arguments.keys.first_query;
  const auto& [alibi, softcap, sinks] = arguments.terms;
  const Tensor scores =
      at::bmm(rows.query, rows.key.transpose(1, 2)).mul_(rows.scale).view({-1, arguments.heads, queries, keys});
  if (softcap != 0) {
    scores.div_(softcap).tanh_();
    if (softcap_derivative != nullptr) *softcap_derivative = scores.square().neg_().add_(1);
    scores.mul_(softcap);
  }
  if (alibi) {
    const Tensor key_position = at::arange(keys, scores.options());
    const Tensor distance = at::abs(key_position.narrow(0, first, queries).unsqueeze(1) - key_position);
    const std::vector<double> slopes = alibi_slopes(arguments.heads);
    for (int64_t head = 0; head < arguments.heads; ++head) {
      scores.select(1, head).sub_(distance, slopes[static_cast<size_t>(head)]);
    }
  }
  if (arguments.mask.pattern.kind != Pattern::Kind::full) {
    scores.masked_fill_(visible_pairs(qkv, arguments).logical_not(), -INFINITY);
  }
  return scores;
}

// [H, 1, 1]
Tensor wide_sinks(const Tensor& sinks) { return sinks.to(sum_options(sinks)).view({-1, 1, 1}); }

}  // namespace

Tensor visible_pairs(const Tensor& qkv, const Arguments& arguments) {
  const MaskedRows rows = {arguments.keys.first_query, qkv.size(1), arguments.keys.count(qkv.size(1))};
  const auto& [pattern, document_offsets] = arguments.mask;
  const Tensor document_BT =
      document_offsets.defined() ? documents_of(document_offsets, qkv.size(0), rows.keys) : Tensor();
  return pattern_mask(compile_program(pattern), rows, document_BT, qkv.device());
}

AttentionOp::Output explicit_attention_forward(const Tensor& qkv, const Arguments& arguments) {
  const int64_t batch = qkv.size(0), queries = qkv.size(1), head_width = head_width_of(qkv, arguments);
  const Tensor y = at::empty({batch, queries, arguments.heads * head_width}, qkv.options());
  if (y.numel() == 0) return {y, at::empty({batch, arguments.heads, queries}, sum_options(qkv))};
  const Rows rows(qkv, arguments);
  const Tensor scores = scores_of(rows, qkv, arguments);
  Tensor row_max = scores.amax(-1, /*keepdim=*/true);
  const Tensor& sinks = arguments.terms.sinks;
  if (sinks.defined()) row_max = at::maximum(row_max, wide_sinks(sinks));
  const Tensor probabilities = scores.sub_(row_max).exp_();
  const Tensor row_sum = probabilities.sum(-1, /*keepdim=*/true);
  if (sinks.defined()) row_sum.add_((wide_sinks(sinks) - row_max).exp_());
  probabilities.div_(row_sum);
  const Tensor y_BKGQD = split_output(y, arguments);
  y_BKGQD.copy_(
      at::bmm(probabilities.view({rows.query.size(0), -1, scores.size(3)}), rows.value).view(y_BKGQD.sizes()));
  return {y, row_max.add_(row_sum.log()).squeeze(-1)};
}

// The probabilities are computed again, so that nothing of all pairs is kept until the backward.
AttentionOp::Gradient explicit_attention_backward(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                                  const Tensor& logsumexp, const Arguments& arguments) {
  AttentionOp::Gradient gradient = empty_gradient(qkv, arguments);
  const Tensor& sinks = arguments.terms.sinks;
  if (qkv.numel() == 0) {
    if (sinks.defined()) gradient.sinks = at::zeros({arguments.heads}, sum_options(sinks));
    return gradient;
  }
  const Rows rows(qkv, arguments);
  const int64_t groups = rows.query.size(0), keys = rows.key.size(1);
  Tensor softcap_derivative;
  const Tensor probabilities = scores_of(rows, qkv, arguments, &softcap_derivative)
                                   .sub_(logsumexp.unsqueeze(-1))
                                   .exp_()
                                   .view({groups, -1, keys});
  const Tensor grad_rows = rows_of_groups(split_output(grad_y, arguments));
  const Tensor delta = rows_of_groups(split_output(y, arguments)).mul_(grad_rows).sum(-1, /*keepdim=*/true);

  const auto [grad_query, grad_key, grad_value] = split_heads(gradient.qkv, gradient.key_value, arguments);
  grad_value.copy_(at::bmm(probabilities.transpose(1, 2), grad_rows).view(grad_value.sizes()));
  const Tensor grad_scores =
      at::bmm(grad_rows, rows.value.transpose(1, 2)).sub_(delta).mul_(probabilities).mul_(rows.scale);
  if (softcap_derivative.defined()) grad_scores.mul_(softcap_derivative.view(grad_scores.sizes()));
  grad_query.copy_(at::bmm(grad_scores, rows.key).view(grad_query.sizes()));
  grad_key.copy_(at::bmm(grad_scores.transpose(1, 2), rows.query).view(grad_key.sizes()));
  if (sinks.defined()) {
    gradient.sinks = gradient_of_sinks(sinks, logsumexp, delta.view(logsumexp.sizes()));
  }
  return gradient;
}

}  // namespace strata::kernels
