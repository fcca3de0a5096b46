// SPDX-License-Identifier: MIT
// Level cuda of attention: cuDNN's fused attention, which reads the packed tensor through strides without a copy, or
// the kernels of attention/wgmma. cuda_engines.h says which. B batch, Q queries, T keys, H query heads, K key and value
// heads, D head width
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/cuda_engines.h"
#include "kernels/attention/cudnn/cudnn_graph.h"
#include "kernels/attention/cudnn/cudnn_problem.h"
#include "kernels/attention/split_heads.h"
#include "kernels/attention/wgmma/attention_gradients.h"
#include "kernels/attention/wgmma/attention_outputs.h"
#include "kernels/cuda/is_on_hopper.h"
#include "kernels/runtime/call.h"

namespace strata::kernels {
namespace {

using Arguments = AttentionOp::Arguments;
using Problem = CudnnProblem;

// Undefined if the queries are not a part of a row.
Tensor readable_keys(const Arguments& arguments) {
  const Tensor& key_value = arguments.keys.key_value;
  return key_value.defined() ? readable(key_value) : key_value;
}

// fp32 [H]; undefined without sinks.
Tensor wide_sinks(const Arguments& arguments) {
  return arguments.terms.sinks.defined() ? arguments.terms.sinks.to(at::kFloat) : Tensor();
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

// The tensors that all calls of cuDNN for a call of attention read.
struct Operands {
  Tensor packed, key_value, y, sinks;
  DocumentTables tables;
};

int64_t first_output(const Problem& p) { return p.first_query * p.heads * p.width; }

CudnnPointers pointers_of(const Problem& p, const Operands& from, const Tensor& logsumexp) {
  CudnnPointers pointers = {{kOutput, element(from.y, first_output(p))}, {kLogsumexp, logsumexp.mutable_data_ptr()}};
  add_parts(pointers, from.packed, from.key_value, p, kQuery, kKey, kValue);
  if (p.sinks != 0) pointers[kSinks] = from.sinks.mutable_data_ptr();
  if (p.documents > 0) {
    pointers[kLengths] = from.tables.lengths.mutable_data_ptr();
    pointers[kPackedOffsets] = from.tables.packed.mutable_data_ptr();
    pointers[kOutputOffsets] = from.tables.output.mutable_data_ptr();
    pointers[kLogsumexpOffsets] = from.tables.logsumexp.mutable_data_ptr();
  }
  return pointers;
}

// Views the numbers of the queries of a call in logsumexp, in cuDNN's order: [B, H, queries], but [B, Q, H] with
// documents, whose call has all of them.
Tensor logsumexp_of(const Problem& p, const Tensor& logsumexp) {
  return p.documents > 0 ? logsumexp.transpose(1, 2) : logsumexp.narrow(2, p.first_query, p.queries);
}

// Views the value part of a packed tensor as [B, T, K, 1, D], and an output as [B, T, K, G, D].
Tensor value_part(const Tensor& packed, const Problem& p) {
  return packed.narrow(2, (p.heads + p.key_value_heads) * p.width, p.key_value_heads * p.width)
      .unflatten(2, {p.key_value_heads, 1, p.width});
}
Tensor by_group(const Tensor& output, const Problem& p) {
  return output.unflatten(2, {p.key_value_heads, p.heads / p.key_value_heads, p.width});
}
// Views the gradients of queries as [B, Q, H * D], and the gradients of keys and values as [B, T, 2K * D].
Tensor query_rows(const AttentionOp::Gradient& gradient, const Problem& p) {
  return gradient.qkv.narrow(2, 0, p.heads * p.width);
}
Tensor key_value_rows(const AttentionOp::Gradient& gradient, const Problem& p) {
  if (gradient.key_value.defined()) return gradient.key_value;
  return gradient.qkv.narrow(2, p.heads * p.width, 2 * p.key_value_heads * p.width);
}

// Sets all rows to zero but `count` of them, from `first` on.
void zero_others(const Tensor& rows, int64_t first, int64_t count) {
  rows.narrow(1, 0, first).zero_();
  const int64_t end = first + count;
  rows.narrow(1, end, rows.size(1) - end).zero_();
}

// Executes a call after the first one. It writes gradients into tensors of their own, which are added to those of the
// first call.
void run_and_add(const Problem& p, CudnnPointers& pointers, const Tensor& like, const Tensor& grad_query,
                 const Tensor& grad_key_value) {
  const Tensor query = at::empty({p.batch, p.queries, p.grad_query_rows.width}, like.options());
  const Tensor key_value = at::empty({p.batch, p.keys, p.grad_key_rows.width}, like.options());
  pointers[kGradQuery] = query.mutable_data_ptr();
  pointers[kGradKey] = key_value.mutable_data_ptr();
  pointers[kGradValue] = element(key_value, p.key_value_heads * p.width);
  run_cudnn(p, pointers, like);
  grad_query.narrow(1, p.first_query, p.queries).add_(query);
  grad_key_value.narrow(1, p.first_key, p.keys).add_(key_value);
}

AttentionOp::Output cudnn_forward(const Tensor& qkv, const Arguments& arguments) {
  const c10::DeviceGuard device(qkv.device());
  const std::vector<Problem> calls = cudnn_problems(qkv, arguments, /*backward=*/false);
  const Problem& first = calls.front();
  const int64_t batch = qkv.size(0), queries = qkv.size(1), heads = first.heads;
  const Tensor y = at::empty({batch, queries, heads * first.width}, qkv.options());
  const auto fp32 = qkv.options().dtype(at::kFloat);
  // With documents cuDNN writes [B, Q, H].
  const Tensor logsumexp = first.documents > 0 ? at::empty({batch, queries, heads}, fp32).transpose(1, 2)
                                               : at::empty({batch, heads, queries}, fp32);
  if (y.numel() == 0) return {y, logsumexp};
  if (first.key_rows.count == 1) {  // a position attends only to itself; cuDNN has no backward for it
    by_group(y, first).copy_(value_part(qkv, first).expand_as(by_group(y, first)));
    return {y, logsumexp};
  }
  const Operands operands = {readable(qkv), readable_keys(arguments), y, wide_sinks(arguments),
                             document_tables(arguments.mask, first)};
  for (const Problem& call : calls) {
    const Tensor rows = logsumexp_of(call, logsumexp);
    // cuDNN writes contiguous numbers.
    const Tensor own = calls.size() > 1 ? at::empty(rows.sizes(), fp32) : rows;
    CudnnPointers pointers = pointers_of(call, operands, own);
    run_cudnn(call, pointers, qkv);
    if (calls.size() > 1) rows.copy_(own);
  }
  return {y, logsumexp};
}

AttentionOp::Gradient cudnn_backward(const Tensor& grad_y, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                                     const Arguments& arguments) {
  const c10::DeviceGuard device(qkv.device());
  const std::vector<Problem> calls = cudnn_problems(qkv, arguments, /*backward=*/true);
  const Problem& first = calls.front();
  AttentionOp::Gradient gradient = empty_gradient(qkv, arguments);
  const Tensor sinks = wide_sinks(arguments);
  if (sinks.defined()) gradient.sinks = at::zeros(sinks.sizes(), sinks.options());
  if (gradient.qkv.numel() == 0) return gradient;
  if (first.key_rows.count == 1) {
    gradient.qkv.zero_();
    value_part(gradient.qkv, first).copy_(at::sum(by_group(grad_y, first), /*dim=*/3, /*keepdim=*/true));
    return gradient;
  }
  const Tensor grad_rows = readable(grad_y), grad_query = query_rows(gradient, first),
               grad_key_value = key_value_rows(gradient, first);
  const Operands operands = {readable(qkv), readable_keys(arguments), y, sinks, document_tables(arguments.mask, first)};
  // Rows that the first call does not write.
  zero_others(grad_query, first.first_query, first.queries);
  zero_others(grad_key_value, first.first_key, first.keys);
  for (const Problem& call : calls) {
    // cudnn-frontend refuses other strides for a backward of cuDNN 9.19.
    const Tensor own = readable(logsumexp_of(call, logsumexp));
    CudnnPointers pointers = pointers_of(call, operands, own);
    pointers[kGradOutput] = element(grad_rows, first_output(call));
    Tensor sinks_gradient;
    if (call.sinks != 0) {
      sinks_gradient = &call == &first ? gradient.sinks : at::zeros(sinks.sizes(), sinks.options());
      pointers[kGradSinks] = sinks_gradient.mutable_data_ptr();
    }
    if (&call == &first) {
      add_parts(pointers, gradient.qkv, gradient.key_value, call, kGradQuery, kGradKey, kGradValue);
      run_cudnn(call, pointers, qkv);
    } else {
      run_and_add(call, pointers, qkv, grad_query, grad_key_value);
      if (sinks_gradient.defined()) gradient.sinks.add_(sinks_gradient);
    }
  }
  // cuDNN's deterministic algorithms add the gradients of sinks in an order that varies too (H200, cuDNN 9.19).
  if (sinks.defined() && first.deterministic != 0) {
    const Tensor delta = grad_y.to(at::kFloat).mul_(y).unflatten(2, {first.heads, first.width}).sum(-1);
    gradient.sinks = gradient_of_sinks(sinks, logsumexp, delta.transpose(1, 2));
  }
  return gradient;
}

// True if the kernels of attention/wgmma compute the call, and false if cuDNN does. The checks of a pattern know no
// GPU, so a call that only the kernels take is refused here on other GPUs than Hopper's. Tensors without values stand
// for tensors of a Hopper GPU.
bool by_wgmma(const Tensor& qkv, const Arguments& arguments) {
  const CudaCall call = {arguments.mask.pattern, arguments.terms.kinds(), head_width_of(qkv, arguments),
                         arguments.keys.key_value.defined()};
  if (cuda_engine(call, qkv.is_meta() || is_on_hopper(qkv)) == CudaEngine::wgmma) return true;
  const std::string why_not = why_not_cudnn(call);
  require(why_not.empty(), AttentionOp::kName, Level::cuda, why_not, " on this GPU; level aten takes it");
  return false;
}

}  // namespace

AttentionOp::Output attention_forward_cuda(const Tensor& qkv, const Arguments& arguments) {
  return by_wgmma(qkv, arguments) ? attention_outputs(qkv, arguments) : cudnn_forward(qkv, arguments);
}

AttentionOp::Gradient attention_backward_cuda(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                              const Tensor& logsumexp, const Arguments& arguments) {
  return by_wgmma(qkv, arguments) ? attention_gradients(grad_y, qkv, y, logsumexp, arguments)
                                  : cudnn_backward(grad_y, qkv, y, logsumexp, arguments);
}

}  // namespace strata::kernels
