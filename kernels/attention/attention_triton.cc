// SPDX-License-Identifier: MIT
// Level triton of attention: calls the kernels of attention_triton.py and attention_backward_triton.py with tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_backward_triton_kernels.h"
#include "kernels/attention/attention_triton_kernels.h"
#include "kernels/attention/device_constants.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/residues.h"
#include "kernels/attention/pattern/tile_words.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/attention/split_heads.h"
#include "kernels/attention/tiles/cache_order.h"
#include "kernels/attention/tiles/tile_lists.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

// The bits of TERMS of attention_choices.py. Every kernel has sinks.
constexpr int64_t kAlibi = 1, kSoftcap = 2;

struct TileSizes {
  TileSize forward, backward_query, backward_key;
  int64_t heads = 1;  // heads of a group in a tile of backward_query
};

// The arguments of all kernels of a call.
struct TritonCallArguments {
  TritonCallArguments(const Tensor& qkv, const AttentionOp::Arguments& arguments)
      : batch(qkv.size(0)),
        row{arguments.keys.first_query, qkv.size(1), arguments.keys.count(qkv.size(1))},
        heads(arguments.heads),
        key_value_heads(arguments.key_value_heads),
        head_width(head_width_of(qkv, arguments)),
        query_width(qkv.size(2)),
        key_width(arguments.keys.key_value.defined() ? arguments.keys.key_value.size(2) : query_width),
        element_bytes(static_cast<int64_t>(qkv.element_size())),
        terms((arguments.terms.alibi ? kAlibi : 0) + (arguments.terms.softcap > 0 ? kSoftcap : 0)),
        softcap(arguments.terms.softcap),
        device(qkv.device()),
        residues(arguments.keys.key_value.defined() ? Residues{.step = 1, .pattern = arguments.mask.pattern}
                                                    : residues_of(arguments.mask.pattern, row.keys, query_width)) {
    if (qkv.numel() == 0) return;
    const Program compiled = compile_program(residues.pattern);
    words = tile_words(compiled);
    tiles = tile_sizes(qkv.scalar_type());
    instructions = compiled.length;
    program = program_on(device, residues.pattern);
    const Tensor& offsets = arguments.mask.document_offsets;
    if (offsets.defined()) document_BT = documents_of(offsets, batch, row.keys);
    set_terms(arguments.terms);
  }

  int64_t sequences() const { return batch * residues.step; }

  TiledRow residue_row() const { return {row.first_query, row.queries / residues.step, row.keys / residues.step}; }

  TileLists tile_lists_for(TileSize size, TileSide side) const {
    const TileLists fixed = tile_lists(for_one_document(residues.pattern), residue_row(), size, side, device);
    if (!document_BT.defined()) return fixed;
    return lists_of_documents(fixed, row, document_BT, keeps_documents_apart(residues.pattern), size, side);
  }

  // Calls `launch` with the lists and with all numbers from query_count on. A program of the kernel has a tile of
  // `side`, and reads keys and values, or as many times the queries and gradients of a group.
  template <class Launch>
  void launch_with_lists(TileSize size, TileSide side, int64_t heads_of_tile, const Launch& launch) const {
    const bool by_key = side == TileSide::key;
    const int64_t group = heads / key_value_heads;
    const int64_t rows = by_key ? group * residue_row().queries + residue_row().keys : residue_row().keys;
    const int64_t bytes = 2 * rows * head_width * element_bytes;
    const TileLists tile_lists = tile_lists_for(size, side);
    launch(tile_lists, row.queries, row.first_query, row.keys, heads, key_value_heads, head_width, query_width,
           key_width, residues.step, tile_lists.tiles, /*own_lists=*/int64_t{document_BT.defined()},
           sequences_in_cache(sequences() * (by_key ? key_value_heads : heads / heads_of_tile),
                              by_key ? 1 : group / heads_of_tile, bytes),
           1.0 / std::sqrt(static_cast<double>(head_width)), softcap, instructions, words.lowest, words.highest,
           words.near_lowest, words.near_highest, words.step, words.span, words.first_keys, words.border,
           words.hash_key, words.threshold, sequences(), words.bits, size.queries, size.keys, heads_of_tile, terms);
  }

  int64_t batch;
  TiledRow row;
  int64_t heads, key_value_heads, head_width, query_width, key_width, element_bytes, terms;
  double softcap;
  at::Device device;
  TileSizes tiles;
  Residues residues;
  TileWords words;
  int64_t instructions = 0;
  Tensor program, document_BT, slopes, sinks;

 private:
  // The sizes of tiles of the kernels that attention_choices.py has.
  TileSizes tile_sizes(at::ScalarType type) const {
    if (type == at::kFloat) {
      const int64_t size = head_width <= 64 ? 32 : 16;
      return {{size, size}, {size, size}, {size, size}};
    }
    if (head_width <= 64) return {{64, 64}, {64, 64}, {64, 64}};
    if (head_width > 128) return {{64, 64}, {64, 32}, {32, 64}};
    // A tile of the size of a block is hidden whole or not at all. Heads of a group see the same tiles, so two of them
    // read keys together.
    const bool has_only_blocks = (words.bits | TileWords::band) == (TileWords::band | TileWords::blocks) && terms == 0;
    if (has_only_blocks) return {{64, 64}, {64, 64}, {32, 64}, heads / key_value_heads % 2 == 0 ? 2 : 1};
    return {{64, 64}, {128, 64}, {32, 64}};
  }

  // A kernel gets numbers that change nothing for terms that the call does not have.
  void set_terms(const AttentionTerms& given) {
    const std::string heads_text = " of " + std::to_string(heads) + " heads";
    const auto all = [&](double number) { return std::vector<double>(static_cast<size_t>(heads), number); };
    slopes = given.alibi ? float_device_constants("the slopes" + heads_text, device, alibi_slopes(heads))
                         : float_device_constants("no slopes" + heads_text, device, all(0));
    sinks = given.sinks.defined() ? given.sinks.to(at::kFloat).contiguous()
                                  : float_device_constants("no sinks" + heads_text, device,
                                                           all(-std::numeric_limits<double>::infinity()));
  }
};

// Queries, and keys and values, at the same distances of rows as the tensors of a call.
struct Parts {
  Tensor query, key_value;
};

Parts parts_of(const Tensor& qkv, const Tensor& key_value, const TritonCallArguments& call) {
  const int64_t query_columns = call.heads * call.head_width;
  return {qkv, key_value.defined() ? key_value : qkv.narrow(2, query_columns, qkv.size(2) - query_columns)};
}

Parts contiguous_parts(const Tensor& qkv, const AttentionOp::Arguments& arguments, const TritonCallArguments& call) {
  const Tensor& key_value = arguments.keys.key_value;
  return parts_of(qkv.contiguous(), key_value.defined() ? key_value.contiguous() : key_value, call);
}

}  // namespace

AttentionOp::Output attention_forward_triton(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  const TritonCallArguments call(qkv, arguments);
  const Tensor y = at::empty({call.batch, call.row.queries, call.heads * call.head_width}, qkv.options());
  const Tensor logsumexp = at::empty({call.batch, call.heads, call.row.queries}, qkv.options().dtype(at::kFloat));
  if (y.numel() == 0) return {y, logsumexp};
  const Parts parts = contiguous_parts(qkv, arguments, call);
  call.launch_with_lists(
      call.tiles.forward, TileSide::query, /*heads_of_tile=*/1, [&](const TileLists& lists, auto... numbers) {
        launch_attention_forward_triton(parts.query, parts.key_value, y, logsumexp, lists.rows, lists.indices,
                                        call.document_BT, call.program, call.slopes, call.sinks, numbers...);
      });
  return {y, logsumexp};
}

AttentionOp::Gradient attention_backward_triton(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                                const Tensor& logsumexp, const AttentionOp::Arguments& arguments) {
  const TritonCallArguments call(qkv, arguments);
  AttentionOp::Gradient gradient = empty_gradient(qkv, arguments);
  const bool has_sinks = arguments.terms.sinks.defined();
  if (qkv.numel() == 0) {
    if (has_sinks) gradient.sinks = at::zeros({call.heads}, logsumexp.options());
    return gradient;
  }
  const Parts parts = contiguous_parts(qkv, arguments, call),
              gradients = parts_of(gradient.qkv, gradient.key_value, call);
  const Tensor grad_rows = grad_y.contiguous();
  // Whole tiles of the kernel that writes them.
  const int64_t tile = call.tiles.backward_query.queries;
  const int64_t padded_rows = (call.residue_row().queries + tile - 1) / tile * tile;
  const Tensor row_sums = at::empty({call.sequences(), call.heads, padded_rows}, logsumexp.options());
  const Tensor deltas = at::empty(row_sums.sizes(), row_sums.options());
  Tensor tile_sinks;  // what each tile of queries adds to the gradient of its head's sink
  call.launch_with_lists(
      call.tiles.backward_query, TileSide::query, call.tiles.heads, [&](const TileLists& lists, auto... numbers) {
        tile_sinks = at::empty({call.sequences(), call.heads, lists.tiles}, logsumexp.options());
        launch_attention_backward_query_triton(parts.query, parts.key_value, grad_rows, y, logsumexp, row_sums, deltas,
                                               gradients.query, tile_sinks, lists.rows, lists.indices, call.document_BT,
                                               call.program, call.slopes, call.sinks, padded_rows, numbers...);
      });
  call.launch_with_lists(
      call.tiles.backward_key, TileSide::key, /*heads_of_tile=*/1, [&](const TileLists& lists, auto... numbers) {
        launch_attention_backward_key_triton(parts.query, parts.key_value, grad_rows, row_sums, deltas,
                                             gradients.key_value, lists.rows, lists.indices, call.document_BT,
                                             call.program, call.slopes, call.sinks, padded_rows, numbers...);
      });
  if (has_sinks) gradient.sinks = at::sum(tile_sinks, at::IntArrayRef{0, 2});
  return gradient;
}

}  // namespace strata::kernels
