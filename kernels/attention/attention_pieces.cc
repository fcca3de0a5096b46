// SPDX-License-Identifier: MIT
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads of a group, P queries of a
// piece, D head width
#include "kernels/attention/attention_pieces.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/attention/attention_group.h"
#include "kernels/attention/definition.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;

// Heads one after another, as in the tensors of a call: [B, G, Q, D] -> [B, Q, G * D].
Tensor packed(const Tensor& by_head) { return by_head.transpose(1, 2).flatten(2); }

}  // namespace

std::vector<Tensor> attention_in_pieces(const Tensor& qkv, const Arguments& arguments, const Tensor& grad_y,
                                        int64_t elements) {
  const Tensor& sinks = arguments.terms.sinks;
  const Tensor y = at::empty(grad_y.sizes(), qkv.options().requires_grad(false));
  AttentionOp::Gradient gradient = empty_gradient(qkv.detach(), arguments);
  if (sinks.defined()) gradient.sinks = at::empty(sinks.sizes(), sinks.options().requires_grad(false));
  const Heads gradients_by_head = split_heads(gradient.qkv, gradient.key_value, arguments);
  for (int64_t number = 0; number < arguments.key_value_heads; ++number) {
    AttentionGroup group(qkv, arguments, number);
    Arguments& own = group.arguments;
    own.keys.key_value = packed(at::cat({group.key, group.value}, 1)).requires_grad_();
    std::vector<Tensor> leaves(sinks.defined() ? 3 : 2);  // queries of a piece, keys and values, and sinks
    leaves[1] = own.keys.key_value;
    if (sinks.defined()) leaves[2] = own.terms.sinks.requires_grad_();
    std::vector<Tensor> sums(leaves.size());
    for (size_t i = 1; i < leaves.size(); ++i) sums[i] = at::zeros_like(leaves[i]);
    group.for_each_piece(elements, [&](const AttentionPiece& piece) {
      leaves[0] = packed(piece.of(group.query)).requires_grad_();
      const Tensor result = attention_by_definition(leaves[0], group.arguments_of(piece), group.heads);
      const Tensor grad = packed(piece.of(group.group_output(grad_y))).to(result.scalar_type());
      const auto gradients = torch::autograd::grad({result}, leaves, {grad});
      piece.of(group.group_output(y)).copy_(group.by_head(result.detach()));
      piece.of(gradients_by_head.query_BKGQD.select(1, number)).copy_(group.by_head(gradients[0]));
      for (size_t i = 1; i < sums.size(); ++i) sums[i].add_(gradients[i]);
    });
    const auto key_value = sums[1].chunk(2, 2);
    gradients_by_head.key_BKTD.select(1, number).copy_(key_value[0]);
    gradients_by_head.value_BKTD.select(1, number).copy_(key_value[1]);
    if (sinks.defined()) group.group_sinks(gradient.sinks).copy_(sums[2]);
  }
  std::vector<Tensor> results = gradients_in_leaf_order(gradient);
  results.insert(results.begin(), y);
  return results;
}

}  // namespace strata::kernels
