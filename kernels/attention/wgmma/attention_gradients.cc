// SPDX-License-Identifier: MIT
#include "kernels/attention/wgmma/attention_gradients.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/device_constants.h"
#include "kernels/attention/pattern/one_document.h"
#include "kernels/attention/pattern/residues.h"
#include "kernels/attention/pattern_mask.h"
#include "kernels/attention/split_heads.h"
#include "kernels/attention/tiles/tile_lists.h"
#include "kernels/attention/wgmma/backward.h"
#include "kernels/cuda/launch.h"

namespace strata::kernels {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 30, kMostNumbers = std::numeric_limits<int32_t>::max();

// The tensors that a call of the kernels reads and writes, for as long as it is prepared.
struct Operands {
  Tensor grad_y, qkv, key_value, y, program, documents = {}, sinks;
  TileLists by_query, by_key;
  Tensor statistics = {}, tile_sinks = {}, query_rows = {}, query_steps = {}, key_rows = {}, key_steps = {};
};

TileListsOnDevice on_device(const TileLists& lists) {
  return {static_cast<const int32_t*>(lists.rows.const_data_ptr()),
          static_cast<const int32_t*>(lists.indices.const_data_ptr()), static_cast<int>(lists.tiles),
          static_cast<int>(lists.indices.size(0))};
}

}  // namespace

AttentionOp::Gradient attention_gradients(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                          const Tensor& logsumexp_BHQ, const AttentionOp::Arguments& arguments) {
  constexpr auto op = AttentionOp::kName;
  AttentionOp::Gradient gradient = empty_gradient(qkv, arguments);
  const bool has_sinks = arguments.terms.sinks.defined(), is_part = arguments.keys.key_value.defined();
  const at::TensorOptions fp32 = qkv.options().dtype(at::kFloat), int32 = qkv.options().dtype(at::kInt);
  if (gradient.qkv.numel() == 0) {
    if (has_sinks) gradient.sinks = at::zeros({arguments.heads}, fp32);
    return gradient;
  }
  const int64_t batch = qkv.size(0), queries = qkv.size(1), keys = arguments.keys.count(queries);
  const int64_t width = head_width_of(qkv, arguments), heads = arguments.heads,
                key_value_heads = arguments.key_value_heads;
  require(keys < kMostPositions, op, Level::cuda, "rows have ", keys, " positions, expected less than ",
          kMostPositions);
  const Residues residues =
      is_part ? Residues{.pattern = arguments.mask.pattern} : residues_of(arguments.mask.pattern, keys, qkv.size(2));
  const TiledRow row = {arguments.keys.first_query, queries / residues.step, keys / residues.step};
  const Pattern one_document = for_one_document(residues.pattern);
  const auto lists = [&](TileSize size, TileSide side) {
    return tile_lists(one_document, row, size, side, qkv.device());
  };
  Operands t = {.grad_y = readable(grad_y),
                .qkv = readable(qkv),
                .key_value = is_part ? readable(arguments.keys.key_value) : Tensor(),
                .y = readable(y),
                .program = program_on(qkv.device(), residues.pattern),
                .sinks = has_sinks ? arguments.terms.sinks.to(at::kFloat).contiguous() : Tensor(),
                .by_query = lists({kOwnRows, kOtherRows}, TileSide::query),
                .by_key = lists({kOtherRows, kOwnRows}, TileSide::key)};
  if (arguments.mask.document_offsets.defined())
    t.documents = documents_of(arguments.mask.document_offsets, batch, keys);

  AttentionGradients call;
  call.type = cuda_type(op, "qkv", qkv);
  call.width = static_cast<int>(width);
  call.batch = static_cast<int>(batch);
  call.heads = static_cast<int>(heads);
  call.key_value_heads = static_cast<int>(key_value_heads);
  call.queries = static_cast<int>(queries);
  call.first_query = static_cast<int>(arguments.keys.first_query);
  call.keys = static_cast<int>(keys);
  call.step = static_cast<int>(residues.step);
  call.documents = t.documents.defined() ? static_cast<const int32_t*>(t.documents.const_data_ptr()) : nullptr;
  const Tensor &holder = is_part ? t.key_value : t.qkv, &grad_holder = is_part ? gradient.key_value : gradient.qkv;
  const int64_t first_key = is_part ? 0 : heads * width, first_value = first_key + key_value_heads * width;
  call.query = element(t.qkv, 0);
  call.key = element(holder, first_key);
  call.value = element(holder, first_value);
  call.y = element(t.y, 0);
  call.grad_y = element(t.grad_y, 0);
  call.grad_query = element(gradient.qkv, 0);
  call.grad_key = element(grad_holder, first_key);
  call.grad_value = element(grad_holder, first_value);
  call.query_distance = t.qkv.size(2);
  call.key_distance = holder.size(2);
  call.logsumexp = static_cast<const float*>(logsumexp_BHQ.const_data_ptr());
  call.logsumexp_batch = logsumexp_BHQ.stride(0);
  call.logsumexp_head = logsumexp_BHQ.stride(1);
  call.logsumexp_query = logsumexp_BHQ.stride(2);
  call.by_query = on_device(t.by_query);
  call.by_key = on_device(t.by_key);
  call.program = static_cast<const int32_t*>(t.program.const_data_ptr());
  call.instructions = static_cast<int>(t.program.size(0) / 3);
  call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  const int64_t most = std::max(t.by_query.indices.size(0), t.by_key.indices.size(0)) * call.step_lists();
  require(most <= kMostNumbers && call.statistics_count() / 128 <= kMostNumbers, op, Level::cuda, "a batch of ", batch,
          " rows of ", keys, " positions has lists of ", most, " tiles, expected less than 2^31; take fewer rows");
  t.statistics = at::empty({call.statistics_count()}, fp32);
  t.query_rows = at::empty({call.step_lists(), t.by_query.tiles, 4}, int32);
  t.key_rows = at::empty({call.step_lists(), t.by_key.tiles, 4}, int32);
  t.query_steps = at::empty({call.step_lists(), call.by_query.capacity}, int32);
  t.key_steps = at::empty({call.step_lists(), call.by_key.capacity}, int32);
  call.statistics = static_cast<float*>(t.statistics.mutable_data_ptr());
  call.query_step_rows = static_cast<int32_t*>(t.query_rows.mutable_data_ptr());
  call.key_step_rows = static_cast<int32_t*>(t.key_rows.mutable_data_ptr());
  call.query_steps = static_cast<uint32_t*>(t.query_steps.mutable_data_ptr());
  call.key_steps = static_cast<uint32_t*>(t.key_steps.mutable_data_ptr());
  if (has_sinks) {
    t.tile_sinks = at::empty({call.sequences(), heads, call.query_parts()}, fp32);
    call.sinks = static_cast<const float*>(t.sinks.const_data_ptr());
    call.tile_sinks = static_cast<float*>(t.tile_sinks.mutable_data_ptr());
  }
  launch("attention_gradients", qkv, batch * queries, heads * width,
         [&](cudaStream_t stream) { return launch_attention_gradients(call, stream); });
  if (has_sinks) gradient.sinks = at::sum(t.tile_sinks, at::IntArrayRef{0, 2});
  return gradient;
}

}  // namespace strata::kernels
