// SPDX-License-Identifier: MIT
// Level triton of attention: calls the kernels of attention_triton.py and attention_backward_triton.py with tensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_backward_triton_kernels.h"
#include "kernels/attention/attention_triton_kernels.h"
#include "kernels/attention/kept_numbers.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/residues.h"
#include "kernels/attention/pattern/tile_words.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/attention/tile_lists.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMaxHeadWidth = 256;
// The bits of TERMS of attention_choices.py. Every kernel has sinks.
constexpr int64_t kAlibi = 1, kSoftcap = 2;
constexpr int64_t kCacheBytes = int64_t{24} << 20;  // about half of the L2 cache of a Hopper GPU

// The sizes of tiles of the kernels that attention_choices.py has for a type and a width.
struct TileSizes {
  TileSize forward, backward_query, backward_key;
};

TileSizes tile_sizes(at::ScalarType type, int64_t head_width) {
  if (type == at::kFloat) {
    const int64_t size = head_width <= 64 ? 32 : 16;
    return {{size, size}, {size, size}, {size, size}};
  }
  if (head_width <= 64) return {{64, 64}, {64, 64}, {64, 64}};
  if (head_width <= 128) return {{64, 64}, {128, 64}, {32, 64}};
  return {{64, 64}, {64, 32}, {32, 64}};
}

// Returns how many of `all` sequences and heads run next to each other: a divisor in whole groups, such that what they
// read over and over, `bytes` for each group, stays in the cache.
int64_t together(int64_t all, int64_t group, int64_t bytes) {
  int64_t groups = std::min(all / group, std::max<int64_t>(1, kCacheBytes / bytes));
  while (all / group % groups != 0) --groups;
  return groups * group;
}

// What all kernels of a call are given.
struct Problem {
  Problem(const Tensor& qkv, const AttentionOp::Shape& shape)
      : batch(qkv.size(0)),
        positions(qkv.size(1)),
        heads(shape.heads),
        key_value_heads(shape.key_value_heads),
        head_width(qkv.size(2) / (heads + 2 * key_value_heads)),
        row_width(qkv.size(2)),
        element_bytes(static_cast<int64_t>(qkv.element_size())),
        terms((shape.terms.alibi ? kAlibi : 0) + (shape.terms.softcap > 0 ? kSoftcap : 0)),
        softcap(shape.terms.softcap),
        device(qkv.device()),
        tiles(tile_sizes(qkv.scalar_type(), head_width)),
        residues(residues_of(shape.mask.pattern, positions, row_width)) {
    require(head_width <= kMaxHeadWidth, AttentionOp::kName, Level::triton, "heads are ", head_width,
            " wide, expected at most ", kMaxHeadWidth);
    if (qkv.numel() == 0) return;
    const Program compiled = compile_program(residues.pattern);
    words = tile_words(compiled);
    instructions = compiled.length;
    program = kept_numbers("the program of " + to_text(residues.pattern), device, [&] {
      std::vector<int32_t> numbers;
      for (int32_t i = 0; i < compiled.length; ++i) {
        const Instruction& instruction = compiled.instructions[i];
        numbers.insert(numbers.end(),
                       {static_cast<int32_t>(instruction.operation), instruction.first, instruction.second});
      }
      return numbers;
    });
    const Tensor& offsets = shape.mask.document_offsets;
    if (offsets.defined()) document_BT = documents_of(offsets, batch, positions);
    take(shape.terms);
  }

  int64_t sequences() const { return batch * residues.step; }

  TileLists lists(TileSize size, TileSide side) const {
    const TileLists fixed =
        tile_lists(of_one_document(residues.pattern), positions / residues.step, size, side, device);
    if (!document_BT.defined()) return fixed;
    return lists_of_documents(fixed, document_BT, keeps_documents_apart(residues.pattern), size, side);
  }

  // Calls `launch` with the lists and with all numbers from `positions` on. A program of the kernel has a tile of
  // `side`, and reads keys and values, or as many times the queries and gradients of a group.
  template <class Launch>
  void run(TileSize size, TileSide side, const Launch& launch) const {
    const bool by_key = side == TileSide::key;
    const int64_t group = heads / key_value_heads;
    const int64_t bytes = 2 * (positions / residues.step) * head_width * element_bytes * (by_key ? group + 1 : 1);
    const TileLists tile_lists = lists(size, side);
    launch(tile_lists, positions, heads, key_value_heads, head_width, row_width, residues.step, tile_lists.tiles,
           /*own_lists=*/int64_t{document_BT.defined()},
           together(sequences() * (by_key ? key_value_heads : heads), by_key ? 1 : group, std::max<int64_t>(bytes, 1)),
           1.0 / std::sqrt(static_cast<double>(head_width)), softcap, instructions, words.lowest, words.highest,
           words.near_lowest, words.near_highest, words.step, words.span, words.first_keys, words.border,
           words.hash_key, words.threshold, sequences(), words.bits, size.queries, size.keys, terms);
  }

  int64_t batch, positions, heads, key_value_heads, head_width, row_width, element_bytes, terms;
  double softcap;
  at::Device device;
  TileSizes tiles;
  Residues residues;
  TileWords words;
  int64_t instructions = 0;
  Tensor program, document_BT, slopes, sinks;

 private:
  // A kernel gets numbers that change nothing for terms that the call does not have.
  void take(const AttentionTerms& given) {
    const std::string of_heads = " of " + std::to_string(heads) + " heads";
    const auto all = [&](double number) { return std::vector<double>(static_cast<size_t>(heads), number); };
    slopes = given.alibi ? kept_floats("the slopes" + of_heads, device, alibi_slopes(heads))
                         : kept_floats("no slopes" + of_heads, device, all(0));
    sinks = given.sinks.defined()
                ? given.sinks.to(at::kFloat).contiguous()
                : kept_floats("no sinks" + of_heads, device, all(-std::numeric_limits<double>::infinity()));
  }
};

}  // namespace

AttentionOp::Output attention_forward_triton(const Tensor& qkv, const AttentionOp::Shape& shape) {
  const Problem p(qkv, shape);
  const Tensor y = at::empty({p.batch, p.positions, p.heads * p.head_width}, qkv.options());
  const Tensor logsumexp = at::empty({p.batch, p.heads, p.positions}, qkv.options().dtype(at::kFloat));
  if (y.numel() == 0) return {y, logsumexp};
  const Tensor rows = qkv.contiguous();
  p.run(p.tiles.forward, TileSide::query, [&](const TileLists& lists, auto... numbers) {
    launch_attention_forward_triton(rows, y, logsumexp, lists.rows, lists.indices, p.document_BT, p.program, p.slopes,
                                    p.sinks, numbers...);
  });
  return {y, logsumexp};
}

AttentionOp::Gradient attention_backward_triton(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                                const Tensor& logsumexp, const AttentionOp::Shape& shape) {
  const Problem p(qkv, shape);
  const Tensor grad_qkv = at::empty(qkv.sizes(), qkv.options());
  const bool has_sinks = shape.terms.sinks.defined();
  if (grad_qkv.numel() == 0) {
    return {grad_qkv, has_sinks ? at::zeros({p.heads}, logsumexp.options()) : Tensor()};
  }
  const Tensor rows = qkv.contiguous(), grad_rows = grad_y.contiguous();
  // Whole tiles of the kernel that writes them.
  const int64_t tile = p.tiles.backward_query.queries;
  const int64_t padded_rows = (p.positions / p.residues.step + tile - 1) / tile * tile;
  const Tensor row_sums = at::empty({p.sequences(), p.heads, padded_rows}, logsumexp.options());
  const Tensor deltas = at::empty(row_sums.sizes(), row_sums.options());
  Tensor tile_sinks;  // what each tile of queries adds to the gradient of its head's sink
  p.run(p.tiles.backward_query, TileSide::query, [&](const TileLists& lists, auto... numbers) {
    tile_sinks = at::empty({p.sequences(), p.heads, lists.tiles}, logsumexp.options());
    launch_attention_backward_query_triton(rows, grad_rows, y, logsumexp, row_sums, deltas, grad_qkv, tile_sinks,
                                           lists.rows, lists.indices, p.document_BT, p.program, p.slopes, p.sinks,
                                           padded_rows, numbers...);
  });
  p.run(p.tiles.backward_key, TileSide::key, [&](const TileLists& lists, auto... numbers) {
    launch_attention_backward_key_triton(rows, grad_rows, row_sums, deltas, grad_qkv, lists.rows, lists.indices,
                                         p.document_BT, p.program, p.slopes, p.sinks, padded_rows, numbers...);
  });
  return {grad_qkv, has_sinks ? at::sum(tile_sinks, at::IntArrayRef{0, 2}) : Tensor()};
}

}  // namespace strata::kernels
