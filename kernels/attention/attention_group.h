// SPDX-License-Identifier: MIT
// What a proof of attention computes at a time: the heads of one group, and a range of their queries.
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads of a group, P queries of a
// piece, D head width
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention/definition.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {

// A range of the queries of a call.
struct AttentionPiece {
  int64_t first, count;

  // Views the queries of this piece in a tensor of one group, [B, G, Q, D].
  Tensor of(const Tensor& group) const { return group.narrow(2, first, count); }
};

// One key and value head, and the query heads that share it.
struct AttentionGroup {
  AttentionGroup(const Tensor& qkv, const AttentionOp::Arguments& call, int64_t which) : number(which) {
    const auto copied = [&](const Tensor& heads) {
      return heads.select(1, which).detach().to(sum_type(qkv)).contiguous();
    };
    const Heads all = split_heads(qkv, call);
    query = copied(all.query_BKGQD);
    key = copied(all.key_BKTD).unsqueeze(1);
    value = copied(all.value_BKTD).unsqueeze(1);
    heads = {.first_head = which * query.size(1), .all_heads = call.heads};
    arguments = {query.size(1), 1, call.mask, call.terms, {.first_query = call.keys.first_query}};
    if (arguments.terms.sinks.defined()) {
      arguments.terms.sinks = group_sinks(arguments.terms.sinks).detach().to(sum_type(qkv), false, /*copy=*/true);
    }
  }

  // Calls visit(piece) for ranges of queries whose scores have at most `elements` elements.
  template <class Visit>
  void for_each_piece(int64_t elements, Visit visit) const {
    const int64_t queries = query.size(2);
    const int64_t pairs_of_query = std::max<int64_t>(query.size(0) * query.size(1) * key.size(2), 1);
    const int64_t step = std::clamp<int64_t>(elements / pairs_of_query, 1, std::max<int64_t>(queries, 1));
    for (int64_t first = 0; first < queries; first += step)
      visit(AttentionPiece{first, std::min(step, queries - first)});
  }

  AttentionOp::Arguments arguments_of(const AttentionPiece& piece) const {
    AttentionOp::Arguments result = arguments;
    result.keys.first_query += piece.first;
    return result;
  }

  // Views the sinks of this group's heads: [H] -> [G].
  Tensor group_sinks(const Tensor& sinks) const { return sinks.narrow(0, heads.first_head, query.size(1)); }
  // Views the outputs of this group's heads: [B, Q, H * D] -> [B, G, Q, D].
  Tensor group_output(const Tensor& y) const {
    return y.unflatten(2, {heads.all_heads, -1}).narrow(2, heads.first_head, query.size(1)).transpose(1, 2);
  }
  // Views [B, P, G * D] as [B, G, P, D].
  Tensor by_head(const Tensor& rows) const { return rows.unflatten(2, {query.size(1), -1}).transpose(1, 2); }

  int64_t number;
  HeadRange heads;
  Tensor query, key, value;          // [B, G, Q, D], and [B, 1, T, D] twice, fp32 or wider
  AttentionOp::Arguments arguments;  // arguments of its heads, without keys and values
};

// Returns what is like the leaves of a call: qkv, keys and values, and sinks, if there are any.
inline std::vector<Tensor> gradients_in_leaf_order(const AttentionOp::Gradient& leaves) {
  std::vector<Tensor> results = {leaves.qkv};
  if (leaves.key_value.defined()) results.push_back(leaves.key_value);
  if (leaves.sinks.defined()) results.push_back(leaves.sinks);
  return results;
}

}  // namespace strata::kernels
