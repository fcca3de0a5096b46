// SPDX-License-Identifier: MIT
// Level aot_inductor of attention: calls the packages of attention_programs.py with tensors.
// B batch, T positions, P positions of whole tiles, H query heads, K key and value heads, G = H / K query heads per
// group, D head width
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_formula.h"
#include "kernels/attention/device_constants.h"
#include "kernels/attention/split_heads.h"
#include "kernels/attention/tiles/block_mask.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

const AotFunction& packaged_function(const std::string& name) {
  struct Named {
    explicit Named(const std::string& given)
        : name(given), function(AttentionOp::kName, kFormula, name, AotWidths::exact) {}
    std::string name;
    AotFunction function;
  };
  static std::mutex mutex;
  static auto* functions = new std::map<std::string, std::unique_ptr<Named>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Named>& named = (*functions)[name];
  if (named == nullptr) named = std::make_unique<Named>(name);
  return named->function;
}

// The part that forward and backward have in common.
struct Problem {
  Problem(const Tensor& qkv, const AttentionOp::Arguments& arguments)
      : batch(qkv.size(0)),
        positions(qkv.size(1)),
        heads(arguments.heads),
        key_value_heads(arguments.key_value_heads),
        head_width(head_width_of(qkv, arguments)),
        padded((positions + kMaskTile - 1) / kMaskTile * kMaskTile),
        type(qkv.scalar_type()) {
    constexpr auto op = AttentionOp::kName;
    require(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, op, Level::aot_inductor, "qkv is ", type,
            ", expected Float, BFloat16 or Half; level aten takes it");
    require(batch * padded * qkv.size(2) <= std::numeric_limits<int32_t>::max(), op, Level::aot_inductor, "qkv is ",
            qkv.sizes(), ", which is ", batch * padded * qkv.size(2), " elements in whole tiles of ", kMaskTile,
            " positions, expected less than 2^31; level triton takes it");
    if (qkv.numel() == 0) return;
    BlockMask mask =
        block_mask(arguments.mask.pattern, batch, positions, arguments.mask.document_offsets, qkv.device());
    name = mask.name;
    tensors = std::move(mask.lists);
    tensors.insert(tensors.end(), mask.tensors.begin(), mask.tensors.end());
    take(arguments.terms, qkv.device());
  }

  int64_t tiles() const { return padded / kMaskTile; }
  int64_t group() const { return heads / key_value_heads; }

  // Calls the package of `direction` with `inputs`, the mask and the terms.
  std::vector<Tensor> operator()(const char* direction, std::vector<Tensor> inputs) const {
    inputs.insert(inputs.end(), tensors.begin(), tensors.end());
    return packaged_function(direction + name)(type, {{'e', group() + 2}, {'g', group()}, {'d', head_width}}, inputs);
  }

  // [B, T, ...] in whole tiles of positions. All positions after the last one are zero.
  Tensor padded_rows(const Tensor& rows) const {
    return padded == positions ? rows.contiguous() : at::constant_pad_nd(rows, {0, 0, 0, padded - positions});
  }
  Tensor without_padding(const Tensor& rows) const { return rows.narrow(1, 0, positions).contiguous(); }

  // The shapes of attention_programs.py.
  Tensor packed(const Tensor& qkv) const {
    return padded_rows(qkv).view({batch, tiles(), kMaskTile, key_value_heads, group() + 2, head_width});
  }
  Tensor by_group(const Tensor& y) const {
    return padded_rows(y).view({batch, tiles(), kMaskTile, key_value_heads, group(), head_width});
  }

  int64_t batch, positions, heads, key_value_heads, head_width, padded;
  at::ScalarType type;
  std::string name;  // names the mask and the terms
  std::vector<Tensor> tensors;

 private:
  void take(const AttentionTerms& terms, at::Device device) {
    const std::array<int64_t, 2> by_group = {key_value_heads, group()};
    const auto add = [&](const char* term, const Tensor& tensor) {
      name += term;
      tensors.push_back(tensor);
    };
    if (terms.alibi) {
      add("_alibi",
          float_device_constants("the slopes of " + std::to_string(heads) + " heads", device, alibi_slopes(heads))
              .view(by_group));
    }
    if (terms.softcap != 0) {
      add("_softcap",
          float_device_constants("softcap " + to_text({.softcap = terms.softcap}), device, {terms.softcap}));
    }
    if (terms.sinks.defined()) add("_sinks", terms.sinks.contiguous().view(by_group));
  }
};

}  // namespace

AttentionOp::Output attention_forward_aot_inductor(const Tensor& qkv, const AttentionOp::Arguments& arguments) {
  const Problem p(qkv, arguments);
  const auto fp32 = qkv.options().dtype(at::kFloat);
  const int64_t row_width = p.heads * p.head_width;
  if (qkv.numel() == 0) {
    return {at::empty({p.batch, p.positions, row_width}, qkv.options()), at::empty({p.batch, p.heads, p.padded}, fp32)};
  }
  const Tensor packed = p.packed(qkv);
  Tensor y, logsumexp;
  if (qkv.is_meta()) {
    logsumexp = at::empty({p.batch, p.heads, p.padded}, fp32);
    const Tensor largest = at::empty(logsumexp.sizes(), fp32);
    y = at::empty({p.batch, p.padded, row_width}, qkv.options());
    // The result in fp32 and its logsumexp, before the sinks take their share.
    if (arguments.terms.sinks.defined()) traced_workspace(4 * y.numel() + static_cast<int64_t>(logsumexp.nbytes()));
  } else {
    const std::vector<Tensor> results = p("forward_", {packed});
    y = results[0].view({p.batch, p.padded, row_width});
    logsumexp = results[1];
  }
  return {p.without_padding(y), logsumexp};
}

AttentionOp::Gradient attention_backward_aot_inductor(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                                      const Tensor& logsumexp,
                                                      const AttentionOp::Arguments& arguments) {
  const Problem p(qkv, arguments);
  const bool has_sinks = arguments.terms.sinks.defined();
  if (qkv.numel() == 0) {
    return {at::empty(qkv.sizes(), qkv.options()), has_sinks ? at::zeros({p.heads}, logsumexp.options()) : Tensor()};
  }
  const Tensor packed = p.packed(qkv), grad_by_group = p.by_group(grad_y), y_by_group = p.by_group(y);
  const std::array<int64_t, 3> padded_sizes = {p.batch, p.padded, qkv.size(2)};
  if (qkv.is_meta()) {
    const Tensor sums = at::empty(logsumexp.sizes(), logsumexp.options());  // sums of y * grad_y over D
    const Tensor sums_by_head = at::empty(logsumexp.sizes(), logsumexp.options());
    const Tensor gradient_by_head = at::empty(padded_sizes, qkv.options());  // before they are packed
    const Tensor grad_qkv = at::empty(padded_sizes, qkv.options());
    return {p.without_padding(grad_qkv), has_sinks ? at::empty({p.heads}, logsumexp.options()) : Tensor()};
  }
  const std::vector<Tensor> results =
      p("backward_", {grad_by_group, packed, y_by_group,
                      logsumexp.view({p.batch, p.key_value_heads, p.group(), p.tiles(), kMaskTile})});
  return {p.without_padding(results[0].view(padded_sizes)), has_sinks ? results[1] : Tensor()};
}

}  // namespace strata::kernels
