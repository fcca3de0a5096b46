// SPDX-License-Identifier: MIT
// The table of attention, its autograd and its checks of arguments, and the levels that have no file of their own.
// Level aten of attention: LibTorch's scaled_dot_product_attention on GPUs, which chooses cuDNN, flash or
// memory-efficient attention. On CPUs it calls LibTorch's flash kernel once for each query head of a group, so that
// keys and values are never repeated. These kernels do not store the scores of all pairs. With terms of scores the
// level is the definition, which stores them.
// B batch, Q queries, T keys, H query heads, K key and value heads, G = H / K query heads per group, D head width
#include "kernels/attention/attention.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>
#include <span>

#include "kernels/attention/attention_shape.h"
#include "kernels/attention/definition.h"
#include "kernels/attention/explicit_attention.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/attention/pattern_levels.h"
#include "kernels/attention/split_heads.h"
#include "kernels/runtime/aot_inductor_runtime.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;

bool is_full(const AttentionMask& mask) { return mask.pattern.kind == Pattern::Kind::full; }
// True if ATen's causal attention does the call, which has as many queries as keys.
bool is_causal(const Arguments& arguments) {
  return arguments.mask.pattern.kind == Pattern::Kind::causal && !arguments.keys.key_value.defined();
}

// Returns visible_pairs(), or an undefined tensor if ATen does the pattern without a mask.
Tensor visible(const Tensor& qkv, const Arguments& arguments) {
  return is_full(arguments.mask) || is_causal(arguments) ? Tensor() : visible_pairs(qkv, arguments);
}

// Returns the same mask as a tensor to add to the scores (0 or -inf), or nullopt.
std::optional<Tensor> added_to_scores(const Tensor& qkv, const Arguments& arguments) {
  const Tensor visible_mask = visible(qkv, arguments);
  if (!visible_mask.defined()) return std::nullopt;
  return at::zeros(visible_mask.sizes(), qkv.options()).masked_fill_(visible_mask.logical_not(), -INFINITY);
}

// ATen's attention kernels on GPUs read 16 bytes at a time from the first element on, and fail if it is not aligned.
Tensor with_aligned_rows(const Tensor& rows) {
  const bool is_aligned = rows.is_contiguous() && reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  return is_aligned ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

// True if keys and values must be repeated for each query head. Of ATen's kernels on GPUs only the one for 16 bits
// without a mask supports groups; for other calls with groups ATen would store the scores of all pairs.
bool repeats_keys(const Tensor& qkv, const Arguments& arguments, bool has_mask) {
  return arguments.heads > arguments.key_value_heads && (qkv.element_size() > 2 || has_mask);
}

Tensor repeated(const Tensor& heads_BKTD, int64_t times) {
  return heads_BKTD.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

// ATen's attention. For tensors without values it makes the choice that ATen makes on a Hopper GPU, because ATen would
// store the scores of all pairs there: cuDNN for 16 bits without a mask, otherwise the memory-efficient kernel.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& visible_mask,
                       bool causal) {
  const std::optional<Tensor> mask = if_defined(visible_mask);
  const int64_t bytes = query.element_size(), width = query.size(3);
  const bool is_whole = width * bytes % 16 == 0;  // both kernels read 16 bytes at a time
  if (!query.is_meta() || !is_whole || query.numel() == 0) {
    return at::scaled_dot_product_attention(query, key, value, mask, /*dropout_p=*/0.0, causal, /*scale=*/{},
                                            /*enable_gqa=*/key.size(1) < query.size(1));
  }
  const bool records = at::GradMode::is_enabled() && query.requires_grad();
  if (bytes == 2 && !mask && width <= 128) {
    return std::get<0>(at::_scaled_dot_product_cudnn_attention(query, key, value, /*attn_bias=*/{}, records,
                                                               /*dropout_p=*/0.0, causal));
  }
  std::optional<Tensor> added;
  if (mask) added = at::zeros(mask->sizes(), query.options()).masked_fill_(mask->logical_not(), -INFINITY);
  return std::get<0>(
      at::_scaled_dot_product_efficient_attention(query, key, value, added, records, /*dropout_p=*/0.0, causal));
}

// On GPUs ATen chooses among backends that each have their own backward, so autograd records this forward.
Tensor attention_by_autograd_aten(const Tensor& unaligned_qkv, const Arguments& arguments) {
  const Tensor qkv = with_aligned_rows(unaligned_qkv), &key_value = arguments.keys.key_value;
  auto [query, key, value] =
      split_heads(qkv, key_value.defined() ? with_aligned_rows(key_value) : key_value, arguments);
  const Tensor mask = visible(qkv, arguments);
  if (repeats_keys(qkv, arguments, mask.defined())) {
    key = repeated(key, query.size(2));
    value = repeated(value, query.size(2));
  }
  const bool causal = is_causal(arguments);
  const Tensor y = fused_attention(query.flatten(1, 2), key, value, mask, causal).transpose(1, 2).flatten(2);
  if (y.requires_grad()) y.register_hook([](const Tensor& grad_y) { return with_aligned_rows(grad_y); });
  return y;
}

// ATen's flash kernel for CPUs does not support groups.
AttentionOp::Output attention_forward_aten(const Tensor& qkv, const Arguments& arguments) {
  if (arguments.terms.kinds().any()) return explicit_attention_forward(qkv, arguments);
  if (!on_cpu(qkv)) return {attention_by_autograd_aten(qkv, arguments), {}};
  const auto [query, key, value] = split_heads(qkv, arguments);
  const int64_t batch = qkv.size(0), queries = qkv.size(1), head_width = query.size(4);
  const Tensor y = at::empty({batch, queries, arguments.heads * head_width}, qkv.options());
  if (y.numel() == 0) return {y, at::empty({batch, arguments.heads, queries}, qkv.options())};
  const Tensor y_BKGQD = split_output(y, arguments);
  const std::optional<Tensor> added = added_to_scores(qkv, arguments);
  Tensor logsumexp_BKGQ;
  for (int64_t g = 0; g < query.size(2); ++g) {
    const auto [part, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        query.select(2, g), key, value, /*dropout_p=*/0.0, is_causal(arguments), added);
    if (query.size(2) == 1) return {part.transpose(1, 2).flatten(2), logsumexp};
    if (g == 0) {
      logsumexp_BKGQ = at::empty({batch, arguments.key_value_heads, query.size(2), queries}, logsumexp.options());
    }
    y_BKGQD.select(2, g).copy_(part);
    logsumexp_BKGQ.select(2, g).copy_(logsumexp);
  }
  return {y, logsumexp_BKGQ.flatten(1, 2)};
}

AttentionOp::Gradient attention_backward_aten(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                              const Tensor& logsumexp, const Arguments& arguments) {
  if (arguments.terms.kinds().any()) return explicit_attention_backward(grad_y, qkv, y, logsumexp, arguments);
  const AttentionOp::Gradient gradient = empty_gradient(qkv, arguments);
  if (qkv.numel() == 0) return gradient;
  const auto [query, key, value] = split_heads(qkv, arguments);
  const auto [grad_query, grad_key, grad_value] = split_heads(gradient.qkv, gradient.key_value, arguments);
  const Tensor y_BKGQD = split_output(y, arguments), grad_y_BKGQD = split_output(grad_y, arguments);
  const std::optional<Tensor> added = added_to_scores(qkv, arguments);
  const Tensor logsumexp_BKGQ = logsumexp.unflatten(1, {arguments.key_value_heads, -1});
  Tensor sum_key, sum_value;
  for (int64_t g = 0; g < query.size(2); ++g) {
    auto [part_query, part_key, part_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad_y_BKGQD.select(2, g), query.select(2, g), key, value, y_BKGQD.select(2, g), logsumexp_BKGQ.select(2, g),
        /*dropout_p=*/0.0, is_causal(arguments), added);
    grad_query.select(2, g).copy_(part_query);
    // Gradients of keys and values are summed over the group in fp32 or wider.
    if (g == 0) {
      const bool sums = query.size(2) > 1 && part_key.scalar_type() != at::kDouble;
      sum_key = sums ? part_key.to(at::kFloat) : part_key;
      sum_value = sums ? part_value.to(at::kFloat) : part_value;
    } else {
      sum_key.add_(part_key);
      sum_value.add_(part_value);
    }
  }
  grad_key.copy_(sum_key);
  grad_value.copy_(sum_value);
  return gradient;
}

AttentionOp::Output attention_forward_torchscript(const Tensor& qkv, const Arguments& arguments) {
  return {attention_by_definition(qkv, arguments), {}};
}

AttentionShape shape_of(const Tensor& qkv, const Arguments& arguments) {
  return {.batch = qkv.size(0),
          .positions = arguments.keys.count(qkv.size(1)),
          .heads = arguments.heads,
          .key_value_heads = arguments.key_value_heads,
          .head_width = head_width_of(qkv, arguments),
          .pattern = arguments.mask.pattern,
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .terms = arguments.terms.kinds(),
          .queries = arguments.keys.key_value.defined() ? qkv.size(1) : 0,
          .first_query = arguments.keys.first_query};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  // `key_value` and `sinks` are in `arguments` too. Autograd sees only tensors that are arguments of their own.
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const std::optional<Tensor>& key_value,
                        const std::optional<Tensor>& sinks, const Arguments& arguments, Level level) {
    const CallScope scope(AttentionOp::kName, level, qkv, [&] { return shape_of(qkv, arguments); });
    const auto [y, logsumexp] = AttentionOp::kKernels.slot(level).forward(qkv, arguments);
    context->save_for_backward(
        {qkv, y, logsumexp, arguments.mask.document_offsets, sinks.value_or(Tensor()), key_value.value_or(Tensor())});
    context->saved_data["heads"] = arguments.heads;
    context->saved_data["key_value_heads"] = arguments.key_value_heads;
    context->saved_data["pattern"] = to_text(arguments.mask.pattern);
    context->saved_data["alibi"] = arguments.terms.alibi;
    context->saved_data["softcap"] = arguments.terms.softcap;
    context->saved_data["first_query"] = arguments.keys.first_query;
    save_level(context, level);
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Level level = saved_level(context);
    const variable_list saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &y = saved[1], &logsumexp = saved[2], &sinks = saved[4];
    const Arguments arguments = {
        context->saved_data["heads"].toInt(),
        context->saved_data["key_value_heads"].toInt(),
        {parse_pattern(context->saved_data["pattern"].toStringRef()), saved[3]},
        {context->saved_data["alibi"].toBool(), context->saved_data["softcap"].toDouble(), sinks},
        {saved[5], context->saved_data["first_query"].toInt()}};
    const CallScope scope(AttentionOp::kName, level, kBackward, qkv, [&] { return shape_of(qkv, arguments); });
    const auto [grad, grad_sinks, grad_key_value] =
        AttentionOp::kKernels.slot(level).backward(gradients[0], qkv, y, logsumexp, arguments);
    if (!sinks.defined()) return {grad, grad_key_value, Tensor(), Tensor(), Tensor()};
    return {grad, grad_key_value, accumulate_wide(grad_sinks, sinks, take_gradient_destination(sinks)), Tensor(),
            Tensor()};
  }
};

void check_mask(const Tensor& qkv, int64_t positions, int64_t head_width, const AttentionMask& mask, Level level) {
  constexpr auto op = AttentionOp::kName;
  const Tensor& offsets = mask.document_offsets;
  if (const std::string why_not = why_not_pattern(level, mask.pattern, head_width); !why_not.empty()) {
    require(false, op, level, "the pattern is ", to_text(mask.pattern), ", ", why_not);
  }
  const bool has_documents = has_word(mask.pattern, Pattern::Kind::documents);
  require(has_documents == offsets.defined(), op, level, "document_offsets are ", offsets.defined() ? "" : "not ",
          "given, and the pattern ", to_text(mask.pattern), has_documents ? " has documents" : " has no documents");
  if (!offsets.defined()) return;
  require(offsets.scalar_type() == at::kInt && offsets.dim() == 1 && offsets.size(0) >= 2 &&
              offsets.device() == qkv.device() && offsets.is_contiguous(),
          op, level, "document_offsets are ", offsets.scalar_type(), " ", offsets.sizes(), " on ", offsets.device(),
          ", expected contiguous Int [documents + 1] on ", qkv.device());
  if (!offsets.is_cpu()) return;
  const int64_t tokens = qkv.size(0) * positions;
  int64_t next_row = 0;  // start of the next row
  int32_t last = 0;
  for (const int32_t offset : std::span(offsets.const_data_ptr<int32_t>(), offsets.size(0))) {
    require(offset >= last && offset <= next_row, op, level, "document_offsets go from ", last, " to ", offset,
            ", expected ascending numbers that include the start of every row, each multiple of ", positions);
    if (offset == next_row) next_row += positions;
    last = offset;
  }
  require(last == tokens && offsets.const_data_ptr<int32_t>()[0] == 0, op, level, "document_offsets go from ",
          offsets.const_data_ptr<int32_t>()[0], " to ", last, ", expected from 0 to B * T = ", tokens);
}

void check_terms(const Tensor& qkv, const Arguments& arguments, Level level) {
  constexpr auto op = AttentionOp::kName;
  const AttentionTerms& terms = arguments.terms;
  const auto& [alibi, softcap, sinks] = terms;
  const int64_t heads = arguments.heads, width = head_width_of(qkv, arguments);
  require(is_softcap(softcap), op, level, "softcap is ", softcap, ", expected 0 or a number from ", kLeastSoftcap,
          " to ", kMostSoftcap);
  if (const std::string why_not = why_not_terms(level, arguments.mask.pattern, terms.kinds(), width);
      !why_not.empty()) {
    require(false, op, level, "the terms are ", to_text(terms.kinds()), ", ", why_not);
  }
  if (!sinks.defined()) return;
  require(sinks.dim() == 1 && sinks.size(0) == heads, op, level, "sinks are ", sinks.sizes(), ", expected [", heads,
          "]");
  require_same_kind(op, level, "qkv", qkv, "sinks", sinks);
}

void check_kind_of_heads(const Tensor& qkv, const Arguments& arguments, Level level) {
  const at::ScalarType type = qkv.scalar_type();
  const int64_t width = head_width_of(qkv, arguments);
  const std::string why_not = why_not_heads(level, type == at::kBFloat16 || type == at::kHalf, width);
  require(why_not.empty(), AttentionOp::kName, level, "qkv is ", type, " with heads of ", width, ", ", why_not);
}

void check_heads(int64_t heads, int64_t key_value_heads, Level level) {
  require(heads > 0 && key_value_heads > 0 && heads % key_value_heads == 0, AttentionOp::kName, level, "heads is ",
          heads, " and key_value_heads is ", key_value_heads, ", expected the first to be a multiple of the second");
}

Tensor call(const Tensor& qkv, const Arguments& arguments, Level level) {
  constexpr auto op = AttentionOp::kName;
  check_kind_of_heads(qkv, arguments, level);
  check_mask(qkv, arguments.keys.count(qkv.size(1)), head_width_of(qkv, arguments), arguments.mask, level);
  check_terms(qkv, arguments, level);
  const Kernel<AttentionOp>& kernel = AttentionOp::kKernels.at(level, qkv.device());
  const bool by_autograd =
      kernel.backward == nullptr || (level == Level::aten && !on_cpu(qkv) && !arguments.terms.kinds().any());
  if (!by_autograd) {
    return AttentionFunction::apply(qkv, if_defined(arguments.keys.key_value), if_defined(arguments.terms.sinks),
                                    arguments, level);
  }
  const CallScope scope(op, level, qkv, [&] { return shape_of(qkv, arguments); });
  // LibTorch's memory-efficient attention reads rows at 16-byte boundaries and does not check them for bf16, so qkv is
  // made contiguous.
  return kernel.forward(on_gpu(qkv) ? qkv.contiguous() : qkv, arguments).y;
}

}  // namespace

constinit const KernelTable<AttentionOp> AttentionOp::kKernels = {
    .aten = {attention_forward_aten, attention_backward_aten},
    .torchscript = {attention_forward_torchscript, nullptr},
    .aot_inductor = {attention_forward_aot_inductor, attention_backward_aot_inductor, TracedKernel::own,
                     Absent{"FlexAttention has no backward for CPUs"}},
    .triton = {attention_forward_triton, attention_backward_triton},
    .cuda = {attention_forward_cuda, attention_backward_cuda},
};

Tensor attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads, const AttentionMask& mask,
                 const AttentionTerms& terms, Level level) {
  constexpr auto op = AttentionOp::kName;
  AttentionOp::kKernels.at(level, qkv.device());
  check_heads(heads, key_value_heads, level);
  const int64_t all_heads = heads + 2 * key_value_heads;
  require(qkv.is_floating_point() && qkv.dim() == 3 && qkv.size(2) > 0 && qkv.size(2) % all_heads == 0, op, level,
          "qkv is ", qkv.scalar_type(), " ", qkv.sizes(), ", expected floating point [B, T, ", all_heads, " * D]");
  return call(qkv, {heads, key_value_heads, mask, terms}, level);
}

Tensor attention_of_part(const Tensor& query, const KeysOfRows& keys, int64_t heads, int64_t key_value_heads,
                         const AttentionMask& mask, const AttentionTerms& terms, Level level) {
  constexpr auto op = AttentionOp::kName;
  AttentionOp::kKernels.at(level, query.device());
  check_heads(heads, key_value_heads, level);
  const auto& [key_value, first] = keys;
  require(query.is_floating_point() && query.dim() == 3 && query.size(1) > 0 && query.size(2) > 0 &&
              query.size(2) % heads == 0,
          op, level, "query is ", query.scalar_type(), " ", query.sizes(), ", expected floating point [B, Q, ", heads,
          " * D] with a query or more");
  require_same_kind(op, level, "query", query, "key_value", key_value);
  const int64_t width = 2 * key_value_heads * (query.size(2) / heads);
  require(key_value.dim() == 3 && key_value.size(0) == query.size(0) && key_value.size(2) == width, op, level,
          "key_value is ", key_value.sizes(), ", expected [", query.size(0), ", T, ", width, "]");
  require(first >= 0 && first + query.size(1) <= key_value.size(1), op, level, "queries are the positions ", first,
          " to ", first + query.size(1) - 1, ", expected positions of the ", key_value.size(1), " keys");
  if (const std::string why_not = why_not_part(level, mask.pattern, terms.kinds(), query.size(2) / heads);
      !why_not.empty()) {
    require(false, op, level, "the queries are a part of a row and the pattern is ", to_text(mask.pattern),
            terms.alibi ? " with alibi" : "", ", ", why_not);
  }
  return call(query, {heads, key_value_heads, mask, terms, keys}, level);
}

}  // namespace strata::kernels
