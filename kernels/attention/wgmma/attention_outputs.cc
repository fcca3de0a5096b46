// SPDX-License-Identifier: MIT
#include "kernels/attention/wgmma/attention_outputs.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/attention/device_constants.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/attention/pattern/residues.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/attention/split_heads.h"
#include "kernels/attention/tiles/step_lists.h"
#include "kernels/attention/wgmma/forward.h"
#include "kernels/cuda/launch.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 30;

// The address of a column of a contiguous tensor's first row.
const void* column(const Tensor& tensor, int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) + index * static_cast<int64_t>(tensor.element_size());
}

// Narrow tiles of keys leave out more pairs that are not visible, and wide ones take less time for each pair. On an
// H200 windows of 256 take 0.88 to 0.93 of the time with narrow tiles, blocks(0.25, 1) 0.7, and windows of 1024 1.03.
bool is_narrow(const Pattern& pattern) {
  constexpr int64_t kWidest = 512;
  return pattern.kind == Pattern::Kind::blocks || (pattern.kind == Pattern::Kind::window && pattern.n <= kWidest) ||
         std::any_of(pattern.parts.begin(), pattern.parts.end(), is_narrow);
}

}  // namespace

AttentionOp::Output attention_outputs(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  constexpr auto op = AttentionOp::kName;
  const bool is_part = arguments.keys.key_value.defined();
  const int64_t batch = qkv.size(0), queries = qkv.size(1), keys = arguments.keys.count(queries);
  const int64_t width = head_width_of(qkv, arguments), heads = arguments.heads,
                key_value_heads = arguments.key_value_heads;
  require(keys < kMostPositions, op, Level::cuda, "rows have ", keys, " positions, expected less than ",
          kMostPositions);
  const Tensor y = at::empty({batch, queries, heads * width}, qkv.options());
  const Tensor logsumexp = at::empty({batch, heads, queries}, qkv.options().dtype(at::kFloat));
  if (y.numel() == 0) return {y, logsumexp};

  const Residues residues =
      is_part ? Residues{.pattern = arguments.mask.pattern} : residues_of(arguments.mask.pattern, keys, qkv.size(2));
  const Program compiled = compile_program(residues.pattern);
  const auto [wide, narrow] = forward_tiles(width);
  const ForwardTile tile = is_narrow(residues.pattern) ? narrow : wide;
  const TiledRow row = {arguments.keys.first_query, queries / residues.step, keys / residues.step};
  const StepsOfTiles lists =
      step_lists(for_one_document(residues.pattern), row, {tile.queries, tile.keys}, qkv.device());
  const Tensor packed = readable(qkv), holder = is_part ? readable(arguments.keys.key_value) : packed;
  const Tensor program = program_on(qkv.device(), residues.pattern);
  const Tensor& offsets = arguments.mask.document_offsets;
  const Tensor documents = offsets.defined() ? documents_of(offsets, batch, keys) : Tensor();
  const Tensor sinks = arguments.terms.sinks.defined() ? arguments.terms.sinks.to(at::kFloat).contiguous() : Tensor();
  const int64_t first_key = is_part ? 0 : heads * width;
  const AttentionForward call = {
      .type = cuda_type(op, "qkv", qkv),
      .width = width,
      .tile = tile,
      .batch = batch,
      .heads = heads,
      .key_value_heads = key_value_heads,
      .queries = queries,
      .first_query = arguments.keys.first_query,
      .keys = keys,
      .residues = residues.step,
      .query = column(packed, 0),
      .key = column(holder, first_key),
      .value = column(holder, first_key + key_value_heads * width),
      .y = y.mutable_data_ptr(),
      .query_distance = packed.size(2),
      .key_distance = holder.size(2),
      .logsumexp = static_cast<float*>(logsumexp.mutable_data_ptr()),
      .sinks = sinks.defined() ? static_cast<const float*>(sinks.const_data_ptr()) : nullptr,
      .rows = static_cast<const int32_t*>(lists.rows.const_data_ptr()),
      .steps = static_cast<const int32_t*>(lists.steps.const_data_ptr()),
      .tiles = lists.tiles,
      .program = static_cast<const int32_t*>(program.const_data_ptr()),
      .instructions = compiled.length,
      .words = tile_words(compiled),
      .documents = documents.defined() ? static_cast<const int32_t*>(documents.const_data_ptr()) : nullptr,
      // With blocks, keys that a part of the tile does not see may lie between keys of its document.
      .documents_apart = keeps_documents_apart(residues.pattern) && !has_word(residues.pattern, Pattern::Kind::blocks)};
  launch("attention_outputs", qkv, batch * queries, heads * width,
         [&](cudaStream_t stream) { return launch_attention_forward(call, stream); });
  return {y, logsumexp};
}

}  // namespace strata::kernels
