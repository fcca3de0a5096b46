// SPDX-License-Identifier: MIT
// attention: y = softmax(q k^T / sqrt(D)) v for every head, over the positions that the mask allows (Vaswani et al.
// 2017). With K < H key and value heads, H / K consecutive query heads share one of them (grouped-query attention).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "kernels/runtime/kernel_table.h"

namespace strata::kernels {

using at::Tensor;

// The keys that a query may attend to. They are always in the query's own row.
struct AttentionMask {
  // Each query must see a key, unless there are sinks: check_every_query_sees_a_key.
  Pattern pattern = {};
  // Boundaries of packed documents, int32 [documents + 1], as positions in the flattened [B * T] tensor: the start of
  // each document and the end of the last. The first is 0 and the last is B * T. Every row starts a new document, and
  // documents may be empty. Offsets on the CPU are checked; on GPUs the code that reads the data guarantees them.
  // They are given if and only if the pattern has the word documents.
  Tensor document_offsets = {};
};

// The terms of scores, as score_terms.h explains them.
struct AttentionTerms {
  bool alibi = false;
  double softcap = 0;  // 0: none
  // [H] of the type of qkv, differentiable; undefined: none. With sinks, a query that sees no key gives zeros.
  Tensor sinks = {};

  ScoreTerms kinds() const { return {alibi, softcap, sinks.defined()}; }
};

// attention(qkv, heads, key_value_heads, mask, terms, level): y = softmax(q k^T / sqrt(D)) v for every head
//
// qkv [B, T, (H + 2K) * D] holds H query heads, K key heads and K value heads -> y [B, T, H * D]. Saves qkv, sinks, y,
// logsumexp and document_offsets for backward. pattern_levels.h says which level takes which pattern and terms. Throws
// a ValueError if a shape does not match, or if the level does not support dtype, head width, mask or terms.
Tensor attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads, const AttentionMask& mask,
                 const AttentionTerms& terms, Level level);

// The keys and values of whole rows, if the queries of a call are a part of each row.
struct KeysOfRows {
  Tensor key_value = {};    // [B, T, 2K * D]: K key heads, then K value heads; undefined: they are in qkv
  int64_t first_query = 0;  // position of the first query among the keys

  // The number of keys of a row with `queries` queries.
  int64_t count(int64_t queries) const { return key_value.defined() ? key_value.size(1) : queries; }
};

// attention_of_part(query, keys, heads, key_value_heads, mask, terms, level): the same for a part of each row's queries
//
// The same for Q queries of each row, which stand at the positions first_query, first_query + 1, ...: query [B, Q, H *
// D] -> y [B, Q, H * D]. They equal the same rows of y of attention(). The mask is for whole rows of T positions.
// why_not_part() in pattern_levels.h says which level takes which pattern.
Tensor attention_of_part(const Tensor& query, const KeysOfRows& keys, int64_t heads, int64_t key_value_heads,
                         const AttentionMask& mask, const AttentionTerms& terms, Level level);

struct AttentionOp {
  static constexpr std::string_view kName = "attention";
  struct Arguments {
    int64_t heads, key_value_heads;
    AttentionMask mask;
    AttentionTerms terms;
    KeysOfRows keys = {};  // only in attention_of_part, whose qkv has queries only
  };
  struct Output {
    // logsumexp of the scores and of the sink, [B, H, Q], for the backward of the same level.
    Tensor y, logsumexp;
  };
  struct Gradient {
    Tensor qkv;
    Tensor sinks = {};      // fp32 or wider; undefined without sinks
    Tensor key_value = {};  // only in attention_of_part
  };
  using Forward = Output(const Tensor& qkv, const Arguments& arguments);
  using Backward = Gradient(const Tensor& grad_y, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                            const Arguments& arguments);
  static const KernelTable<AttentionOp> kKernels;
};

// Level aot_inductor takes Float, BFloat16 and Half and head widths that are multiples of 16 up to 256, on GPUs. It
// computes whole tiles of 128 positions: if T is no multiple of 128, qkv and the result are copied. Its logsumexp is in
// base 2, [B, H, T in whole tiles]. It keeps lists of tiles on the GPU, as level triton does.
AttentionOp::Forward attention_forward_aot_inductor;
AttentionOp::Backward attention_backward_aot_inductor;
// Level triton takes head widths up to 256, and the widths 64, 96, 128 and 256 in BFloat16 and Half are fast; with
// terms 96 is not. It reads lists of tiles, which the first call of a pattern and a number of positions copies to the
// GPU. So this first call must not be captured in a CUDA graph. A replay reads the document offsets that the captured
// tensor has at the time of the replay.
AttentionOp::Forward attention_forward_triton;
AttentionOp::Backward attention_backward_triton;
// Level cuda is cuDNN's fused attention, or kernels of its own for Hopper GPUs (cuda_engines.h). It takes BFloat16 and
// Half and head widths that are multiples of 8 up to 256. With heads of 64 and 128 it takes every pattern, from lists
// of tiles as level triton does. With cuDNN, causal | prefix(n) is two calls of cuDNN. Gradients of positions before n
// are then two rounded sums, added in fp32. The backward adds the gradient of queries in an order that varies, except
// under at::globalContext().deterministicAlgorithms(), where its workspace has at most 2 B H T^2 bytes. Rows of one
// position with sinks are refused.
AttentionOp::Forward attention_forward_cuda;
AttentionOp::Backward attention_backward_cuda;

using AttentionOps = OpList<AttentionOp>;

}  // namespace strata::kernels
