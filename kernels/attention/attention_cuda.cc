// SPDX-License-Identifier: MIT
// Level cuda of attention: cuDNN's fused attention, which reads the packed tensor through strides without a copy.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

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

void* element(const Tensor& tensor, int64_t offset) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + offset * static_cast<int64_t>(tensor.element_size());
}

// fp32 [H]; undefined without sinks.
Tensor wide_sinks(const Shape& shape) {
  return shape.terms.sinks.defined() ? shape.terms.sinks.to(at::kFloat) : Tensor();
}

// Sets the pointers of the query, key and value parts of tensors. key_value is undefined if `packed` has all of them.
void add_parts(CudnnPointers& pointers, const Tensor& packed, const Tensor& key_value, const Problem& p,
               CudnnTensor query, CudnnTensor key, CudnnTensor value) {
  const Tensor& holder = key_value.defined() ? key_value : packed;
  const int64_t first = p.first_key * p.key_width + (key_value.defined() ? 0 : p.heads * p.width);
  pointers[query] = element(packed, 0);
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
  return {at::diff(offsets), wide.mul(p.query_width), wide.mul(p.heads * p.width), wide.mul(p.heads)};
}

void add_documents(CudnnPointers& pointers, const DocumentTables& tables) {
  if (!tables.lengths.defined()) return;
  pointers[kLengths] = tables.lengths.mutable_data_ptr();
  pointers[kPackedOffsets] = tables.packed.mutable_data_ptr();
  pointers[kOutputOffsets] = tables.output.mutable_data_ptr();
  pointers[kLogsumexpOffsets] = tables.logsumexp.mutable_data_ptr();
}

// Views the value part of a packed tensor as [B, T, K, 1, D], and an output as [B, T, K, G, D].
Tensor value_part(const Tensor& packed, const Problem& p) {
  return packed.narrow(2, (p.heads + p.key_value_heads) * p.width, p.key_value_heads * p.width)
      .unflatten(2, {p.key_value_heads, 1, p.width});
}
Tensor by_group(const Tensor& output, const Problem& p) {
  return output.unflatten(2, {p.key_value_heads, p.heads / p.key_value_heads, p.width});
}

}  // namespace

AttentionOp::Output attention_forward_cuda(const Tensor& qkv, const Shape& shape) {
  const c10::DeviceGuard device(qkv.device());
  const Problem p = cudnn_problem(qkv, shape, /*backward=*/false);
  const Tensor y = at::empty({p.batch, p.queries, p.heads * p.width}, qkv.options());
  const auto fp32 = qkv.options().dtype(at::kFloat);
  const Tensor logsumexp =
      p.documents > 0 ? at::empty({p.batch, p.queries, p.heads}, fp32) : at::empty({p.batch, p.heads, p.queries}, fp32);
  if (y.numel() == 0) return {y, logsumexp};
  if (p.key_rows == 1) {  // a position attends only to itself; cuDNN has no backward for it
    by_group(y, p).copy_(value_part(qkv, p).expand_as(by_group(y, p)));
    return {y, logsumexp};
  }
  const Tensor packed = readable(qkv);
  const DocumentTables tables = document_tables(shape.mask, p);
  CudnnPointers pointers = {{kOutput, y.mutable_data_ptr()}, {kLogsumexp, logsumexp.mutable_data_ptr()}};
  add_parts(pointers, packed, readable_keys(shape), p, kQuery, kKey, kValue);
  add_documents(pointers, tables);
  const Tensor sinks = wide_sinks(shape);
  if (sinks.defined()) pointers[kSinks] = sinks.mutable_data_ptr();
  run_cudnn(p, pointers, qkv);
  return {y, logsumexp};
}

AttentionOp::Gradient attention_backward_cuda(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                              const Tensor& logsumexp, const Shape& shape) {
  const c10::DeviceGuard device(qkv.device());
  const Problem p = cudnn_problem(qkv, shape, /*backward=*/true);
  AttentionOp::Gradient gradient = empty_gradient(qkv, shape);
  const Tensor sinks = wide_sinks(shape);
  if (sinks.defined()) gradient.sinks = at::zeros(sinks.sizes(), sinks.options());
  const auto& [grad, grad_sinks, grad_key_value] = gradient;
  if (grad.numel() == 0) return gradient;
  if (p.key_rows == 1) {
    grad.zero_();
    value_part(grad, p).copy_(at::sum(by_group(grad_y, p), /*dim=*/3, /*keepdim=*/true));
    return gradient;
  }
  const Tensor packed = readable(qkv), grad_rows = readable(grad_y);
  const DocumentTables tables = document_tables(shape.mask, p);
  CudnnPointers pointers = {{kOutput, y.mutable_data_ptr()},
                            {kLogsumexp, logsumexp.mutable_data_ptr()},
                            {kGradOutput, grad_rows.mutable_data_ptr()}};
  const Tensor key_value = readable_keys(shape);
  add_parts(pointers, packed, key_value, p, kQuery, kKey, kValue);
  add_parts(pointers, grad, grad_key_value, p, kGradQuery, kGradKey, kGradValue);
  add_documents(pointers, tables);
  if (sinks.defined()) {
    pointers[kSinks] = sinks.mutable_data_ptr();
    pointers[kGradSinks] = grad_sinks.mutable_data_ptr();
  }
  run_cudnn(p, pointers, qkv);
  // cuDNN's deterministic algorithms add the gradients of sinks in an order that varies too (H200, cuDNN 9.19).
  if (sinks.defined() && p.deterministic != 0) {
    const Tensor delta = grad_y.to(at::kFloat).mul_(y).unflatten(2, {p.heads, p.width}).sum(-1);
    gradient.sinks = gradient_of_sinks(sinks, logsumexp, delta.transpose(1, 2));
  }
  if (grad_key_value.defined()) {  // keys that no query sees
    grad_key_value.narrow(1, 0, p.first_key).zero_();
    const int64_t end = p.first_key + p.keys;
    grad_key_value.narrow(1, end, p.key_rows - end).zero_();
  }
  return gradient;
}

}  // namespace strata::kernels
