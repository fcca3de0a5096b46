// SPDX-License-Identifier: MIT
// B batch, T positions, H query heads, K key and value heads, D head width
#include "tests/kernels/attention/tensor_core_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>

#include "kernels/attention/definition.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;

struct Call {
  Arguments arguments;
  Mistake mistake;
};

// fp32 copies of the heads of qkv, [B, H, T, D], and what both directions compute of them.
struct Parts {
  Parts(const Tensor& qkv, const Arguments& arguments) {
    const int64_t heads = arguments.heads, shared = arguments.key_value_heads;
    const Tensor by_head = qkv.to(at::kFloat).unflatten(2, {heads + 2 * shared, -1}).transpose(1, 2);
    query = by_head.narrow(1, 0, heads);
    key = by_head.narrow(1, heads, shared).repeat_interleave(heads / shared, 1);
    value = by_head.narrow(1, heads + shared, shared).repeat_interleave(heads / shared, 1);
    scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    scores = scores_by_definition(query, key, arguments, {0, heads});
  }
  Tensor query, key, value, scores;
  double scale;
};

// Rounds fp32 numbers to `bits` significant bits.
Tensor with_bits(const Tensor& x, int bits) {
  const Tensor larger = x * (std::ldexp(1.0, 24 - bits) + 1);
  return larger - (larger - x);
}

Tensor sinks_of(const Arguments& arguments) { return arguments.terms.sinks.detach().to(at::kFloat).view({-1, 1, 1}); }

struct TensorCoreAttention : torch::autograd::Function<TensorCoreAttention> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& qkv,
                        const std::optional<Tensor>& sinks, const Call& call) {
    const Parts parts(qkv, call.arguments);
    Tensor largest = parts.scores.amax(-1, /*keepdim=*/true);
    if (sinks) largest = largest.maximum(sinks_of(call.arguments));
    const Tensor shares = (parts.scores - largest).exp();
    Tensor total = shares.sum(-1, /*keepdim=*/true);
    if (sinks) total = total + (sinks_of(call.arguments) - largest).exp();
    const auto rounded = [&](const Tensor& x) { return x.to(qkv.scalar_type()).to(at::kFloat); };
    const Tensor y = (at::matmul(rounded(shares), parts.value) / total).transpose(1, 2).flatten(2);
    const Tensor stored = y.to(qkv.scalar_type());
    context->save_for_backward(
        {qkv, stored, largest + total.log(), sinks.value_or(Tensor()), call.arguments.mask.document_offsets});
    context->saved_data["heads"] = call.arguments.heads;
    context->saved_data["shared"] = call.arguments.key_value_heads;
    context->saved_data["alibi"] = call.arguments.terms.alibi;
    context->saved_data["softcap"] = call.arguments.terms.softcap;
    context->saved_data["mistake"] = static_cast<int64_t>(call.mistake);
    context->saved_data["pattern"] = to_text(call.arguments.mask.pattern);
    return stored;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &sinks = saved[3];
    const Arguments arguments = {
        context->saved_data["heads"].toInt(),
        context->saved_data["shared"].toInt(),
        {parse_pattern(context->saved_data["pattern"].toStringRef()), saved[4]},
        {context->saved_data["alibi"].toBool(), context->saved_data["softcap"].toDouble(), sinks}};
    const auto mistake = static_cast<Mistake>(context->saved_data["mistake"].toInt());
    const Parts parts(qkv, arguments);
    const auto by_head = [&](const Tensor& y) {
      return y.to(at::kFloat).unflatten(2, {arguments.heads, -1}).transpose(1, 2);
    };
    const auto rounded = [&](const Tensor& x) { return x.to(qkv.scalar_type()).to(at::kFloat); };
    const Tensor grad = by_head(gradients[0]), shares = at::exp(parts.scores - saved[2]);
    Tensor products = grad * by_head(saved[1]);
    if (mistake == Mistake::delta_without_a_column) products = products.narrow(-1, 1, products.size(-1) - 1);
    Tensor delta = products.sum(-1, /*keepdim=*/true);
    if (mistake == Mistake::delta_of_next_row) delta = delta.roll(-1, 2);
    Tensor change = shares * (at::matmul(grad, parts.value.transpose(2, 3)) - delta);
    if (arguments.terms.softcap != 0) {
      const double inner = parts.scale / arguments.terms.softcap;
      change = change * (1 - at::tanh(at::matmul(parts.query, parts.key.transpose(2, 3)) * inner).square());
    }
    if (mistake == Mistake::steeper_scores) change = change * 1.01;
    const Tensor stored = rounded(change),
                 stored_shares = mistake == Mistake::coarse_shares ? with_bits(shares, 5) : rounded(shares);
    // `sum` makes a gradient of pairs, [B, H, Q, T].
    const int64_t prefix = causal_prefix_of(compile_program(arguments.mask.pattern)).value_or(0);
    const bool by_diagonal = prefix > 2 && prefix < qkv.size(1);
    const auto gradient = [&](const Tensor& pairs, const auto& sum) {
      if (!by_diagonal) return sum(pairs);
      const int64_t lowest = mistake == Mistake::diagonal_twice ? 0 : mistake == Mistake::without_next_keys ? 2 : 1;
      const Tensor above = mistake == Mistake::none_above ? at::zeros_like(pairs) : pairs.triu(lowest);
      return rounded(sum(pairs.tril())) + rounded(sum(above));
    };
    Tensor query_gradient =
        gradient(stored, [&](const Tensor& pairs) { return at::matmul(pairs, parts.key) * parts.scale; });
    if (mistake == Mistake::no_early_gradients) query_gradient.narrow(2, 0, 8).zero_();
    // Both are [B, H, queries, ...], and the sum is over the queries.
    const auto key_rows_gradient = [&](const Tensor& all_pairs, const Tensor& rows) {
      return gradient(all_pairs, [&](const Tensor& pairs) {
        return at::matmul(pairs.transpose(2, 3), rows).unflatten(1, {arguments.key_value_heads, -1}).sum(2);
      });
    };
    const Tensor key_gradient = key_rows_gradient(stored, parts.query * parts.scale),
                 value_gradient = key_rows_gradient(stored_shares, grad);
    const Tensor qkv_gradient =
        at::cat({query_gradient, key_gradient, value_gradient}, 1).transpose(1, 2).flatten(2).to(qkv.scalar_type());
    if (!sinks.defined()) return {qkv_gradient, Tensor(), Tensor()};
    const Tensor sinks_gradient = ((sinks_of(arguments) - saved[2]).exp() * delta).sum(at::IntArrayRef{0, 2, 3}).neg();
    return {qkv_gradient, sinks_gradient.to(sinks.scalar_type()), Tensor()};
  }
};

}  // namespace

Tensor tensor_core_attention(const Tensor& qkv, const Arguments& arguments, Mistake mistake) {
  const Tensor& sinks = arguments.terms.sinks;
  return TensorCoreAttention::apply(qkv, sinks.defined() ? std::optional(sinks) : std::nullopt,
                                    Call{arguments, mistake});
}

}  // namespace strata::kernels
