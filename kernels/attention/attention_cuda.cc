// SPDX-License-Identifier: MIT
// Level cuda of attention: cuDNN's fused attention, which reads the packed tensor through strides without a copy.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/cudnn_graph.h"
#include "kernels/attention/cudnn_problem.h"
#include "kernels/attention/split_heads.h"

namespace strata::kernels {
namespace {

using Shape = AttentionOp::Shape;
using Problem = CudnnProblem;

// Makes a tensor contiguous and 16-byte aligned, because cuDNN reads 16 bytes at a time.
Tensor readable(const Tensor& tensor) {
  const Tensor rows = tensor.contiguous();
  return reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0 ? rows : rows.clone();
}

// Undefined if the queries are not a part of a row.
Tensor readable_keys(const Shape& shape) {
  const Tensor& key_value = shape.keys.key_value;
  return key_value.defined() ? readable(key_value) : key_value;
}

// The address of the element `index` of a contiguous tensor.
void* element(const Tensor& tensor, int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + index * static_cast<int64_t>(tensor.element_size());
}

// fp32 [H]; undefined without sinks.
Tensor wide_sinks(const Shape& shape) {
  return shape.terms.sinks.defined() ? shape.terms.sinks.to(at::kFloat) : Tensor();
}

// Sets the pointers of the query, key and value parts of tensors. key_value is undefined if `packed` has all of them.
void add_parts(CudnnPointers& pointers, const Tensor& packed, const Tensor& key_value, const Problem& p,
               CudnnTensor query, CudnnTensor key, CudnnTensor value) {
  const Tensor& holder = key_value.defined() ? key_value : packed;
  const int64_t first = p.first_key * holder.size(2) + (key_value.defined() ? 0 : p.heads * p.width);
  pointers[query] = element(packed, p.first_query * packed.size(2));
  pointers[key] = element(holder, first);
  pointers[value] = element(holder, first + p.key_value_heads * p.width);
}

// The offsets of documents in each tensor, in elements, and their lengths.
struct DocumentTables {
  Tensor lengths, packed, output, logsumexp;
};

DocumentTables document_tables(const AttentionMask& mask, const Problem& p) {
  if (p.documents == 0) return {};
  const Tensor& given = mask.document_offsets;
  const int64_t missing = p.documents + 1 - given.size(0);
  const Tensor offsets = missing == 0 ? given : at::cat({given, given.slice(0, -1).expand({missing})});
  const Tensor wide = offsets.to(at::kLong);
  return {at::diff(offsets), wide.mul(p.query_rows.width), wide.mul(p.heads * p.width), wide.mul(p.heads)};
}

// What all calls of cuDNN for a call of attention read.
struct Operands {
  Tensor packed, key_value, y, logsumexp, sinks;
  DocumentTables tables;
};

int64_t first_output(const Problem& p) { return p.first_query * p.heads * p.width; }

CudnnPointers pointers_of(const Problem& p, const Operands& from) {
  CudnnPointers pointers = {{kOutput, element(from.y, first_output(p))},
                            {kLogsumexp, element(from.logsumexp, p.first_statistic)}};
  add_parts(pointers, from.packed, from.key_value, p, kQuery, kKey, kValue);
  if (from.sinks.defined()) pointers[kSinks] = from.sinks.mutable_data_ptr();
  if (from.tables.lengths.defined()) {
    pointers[kLengths] = from.tables.lengths.mutable_data_ptr();
    pointers[kPackedOffsets] = from.tables.packed.mutable_data_ptr();
    pointers[kOutputOffsets] = from.tables.output.mutable_data_ptr();
    pointers[kLogsumexpOffsets] = from.tables.logsumexp.mutable_data_ptr();
  }
  return pointers;
}

// Views the value part of a packed tensor as [B, T, K, 1, D], and an output as [B, T, K, G, D].
Tensor value_part(const Tensor& packed, const Problem& p) {
  return packed.narrow(2, (p.heads + p.key_value_heads) * p.width, p.key_value_heads * p.width)
      .unflatten(2, {p.key_value_heads, 1, p.width});
}
Tensor by_group(const Tensor& output, const Problem& p) {
  return output.unflatten(2, {p.key_value_heads, p.heads / p.key_value_heads, p.width});
}
// Views the gradients of keys and values as [B, T, 2K * D].
Tensor keys_and_values(const AttentionOp::Gradient& gradient, const Problem& p) {
  if (gradient.key_value.defined()) return gradient.key_value;
  return gradient.qkv.narrow(2, p.heads * p.width, 2 * p.key_value_heads * p.width);
}

// cuDNN's deterministic algorithms add the gradients of sinks in an order that varies too (H200, cuDNN 9.19).
Tensor deterministic_gradient_of_sinks(const Problem& p, const Operands& from, const Tensor& grad_y) {
  const auto queries = [&](const Tensor& rows) { return rows.narrow(1, p.first_query, p.queries); };
  const Tensor delta = queries(grad_y).to(at::kFloat).mul_(queries(from.y)).unflatten(2, {p.heads, p.width}).sum(-1);
  const Tensor logsumexp = from.logsumexp.narrow(0, p.first_statistic, p.statistics());
  return gradient_of_sinks(from.sinks, logsumexp.view({p.batch, p.heads, p.queries}), delta.transpose(1, 2));
}

}  // namespace

AttentionOp::Output attention_forward_cuda(const Tensor& qkv, const Shape& shape) {
  const c10::DeviceGuard device(qkv.device());
  const std::vector<Problem> calls = cudnn_problems(qkv, shape, /*backward=*/false);
  const Problem& last = calls.back();
  const Tensor y = at::empty({qkv.size(0), qkv.size(1), last.heads * last.width}, qkv.options());
  const Tensor logsumexp = at::empty({last.first_statistic + last.statistics()}, qkv.options().dtype(at::kFloat));
  if (y.numel() == 0) return {y, logsumexp};
  if (last.key_rows.count == 1) {  // a position attends only to itself; cuDNN has no backward for it
    by_group(y, last).copy_(value_part(qkv, last).expand_as(by_group(y, last)));
    return {y, logsumexp};
  }
  const Operands operands = {readable(qkv), readable_keys(shape), y,
                             logsumexp,     wide_sinks(shape),    document_tables(shape.mask, last)};
  for (const Problem& call : calls) {
    CudnnPointers pointers = pointers_of(call, operands);
    run_cudnn(call, pointers, qkv);
  }
  return {y, logsumexp};
}

AttentionOp::Gradient attention_backward_cuda(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                              const Tensor& logsumexp, const Shape& shape) {
  const c10::DeviceGuard device(qkv.device());
  const std::vector<Problem> calls = cudnn_problems(qkv, shape, /*backward=*/true);
  const Problem& last = calls.back();
  AttentionOp::Gradient gradient = empty_gradient(qkv, shape);
  const Tensor &grad = gradient.qkv, &grad_key_value = gradient.key_value;
  const Tensor sinks = wide_sinks(shape);
  if (grad.numel() == 0) {
    if (sinks.defined()) gradient.sinks = at::zeros(sinks.sizes(), sinks.options());
    return gradient;
  }
  if (last.key_rows.count == 1) {
    grad.zero_();
    value_part(grad, last).copy_(at::sum(by_group(grad_y, last), /*dim=*/3, /*keepdim=*/true));
    return gradient;
  }
  const Tensor grad_rows = readable(grad_y);
  const Operands operands = {
      readable(qkv), readable_keys(shape), y, logsumexp, sinks, document_tables(shape.mask, last)};
  Tensor grad_prefix;  // of keys and values, by the first of two calls
  for (const Problem& call : calls) {
    CudnnPointers pointers = pointers_of(call, operands);
    pointers[kGradOutput] = element(grad_rows, first_output(call));
    if (&call != &last) grad_prefix = at::empty({call.batch, call.keys, call.grad_key_rows.width}, qkv.options());
    add_parts(pointers, grad, &call == &last ? grad_key_value : grad_prefix, call, kGradQuery, kGradKey, kGradValue);
    Tensor of_sinks;
    if (sinks.defined()) {
      of_sinks = at::zeros(sinks.sizes(), sinks.options());
      pointers[kGradSinks] = of_sinks.mutable_data_ptr();
    }
    run_cudnn(call, pointers, qkv);
    if (!sinks.defined()) continue;
    if (call.deterministic != 0) of_sinks = deterministic_gradient_of_sinks(call, operands, grad_rows);
    gradient.sinks = gradient.sinks.defined() ? gradient.sinks.add(of_sinks) : of_sinks;
  }
  if (grad_prefix.defined()) keys_and_values(gradient, last).narrow(1, 0, grad_prefix.size(1)).add_(grad_prefix);
  if (grad_key_value.defined()) {  // keys that no query sees
    grad_key_value.narrow(1, 0, last.first_key).zero_();
    const int64_t end = last.first_key + last.keys;
    grad_key_value.narrow(1, end, last.key_rows.count - end).zero_();
  }
  return gradient;
}

}  // namespace strata::kernels
