// SPDX-License-Identifier: MIT
// Level cuda of attention: cuDNN's fused attention, which reads the packed tensor through strides without a copy. This
// is the only file that includes cudnn-frontend, because its headers take a minute to compile.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width, C = (H + 2K) D
#include <ATen/cudnn/Handle.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "kernels/attention/attention.h"
#include "kernels/attention/cudnn_problem.h"
#include "kernels/attention/split_heads.h"
#include "kernels/runtime/traced.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // cudnn-frontend's headers load cuDNN's functions through this handle
}

namespace strata::kernels {
namespace {

namespace fe = cudnn_frontend;
using Shape = AttentionOp::Shape;
using Problem = CudnnProblem;
using FeTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr auto kOp = AttentionOp::kName;

// Identifiers of tensors in cuDNN graphs.
enum Id : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kLogsumexp,
  kGradOutput,
  kGradQuery,
  kGradKey,
  kGradValue,
  kLengths,
  kPackedOffsets,
  kOutputOffsets,
  kLogsumexpOffsets
};

struct Graph {
  fe::graph::Graph graph;
  int64_t workspace = 0;
};

std::string bound_text(int64_t bound) { return bound == Problem::kOpen ? "none" : std::to_string(bound); }

void check(fe::error_t status, const Problem& p) {
  TORCH_CHECK(status.is_good(), kOp, "/cuda", p.backward ? " backward" : "", ": cuDNN refused [B ", p.batch, ", Q ",
              p.queries, ", T ", p.keys, ", H ", p.heads, ", K ", p.key_value_heads, ", D ", p.width, "] left bound ",
              bound_text(p.left), " right bound ", bound_text(p.right), p.documents > 0 ? " documents" : "",
              p.deterministic ? " deterministic" : "", ": ", status.get_message());
}

class Builder {
 public:
  explicit Builder(const Problem& p) : p_(p), result_(std::make_unique<Graph>()), graph_(result_->graph) {
    graph_.set_io_data_type(p.half ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (p.documents > 0) {
      lengths_ = index(kLengths, "lengths", fe::DataType_t::INT32, p.documents);
      packed_offsets_ = index(kPackedOffsets, "packed_offsets", fe::DataType_t::INT64, p.documents + 1);
      output_offsets_ = index(kOutputOffsets, "output_offsets", fe::DataType_t::INT64, p.documents + 1);
      logsumexp_offsets_ = index(kLogsumexpOffsets, "logsumexp_offsets", fe::DataType_t::INT64, p.documents + 1);
    }
  }

  std::unique_ptr<Graph> forward() {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    set(options);
    auto [y, logsumexp] = graph_.sdpa(queries(kQuery, "query"), keys(kKey, "key"), keys(kValue, "value"), options);
    describe_output(*y, kOutput).set_output(true);
    describe_logsumexp(*logsumexp).set_output(true);
    return finish();
  }

  std::unique_ptr<Graph> backward() {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    set(options);
    options.set_deterministic_algorithm(p_.deterministic != 0);
    if (p_.documents > 0) {
      options.set_max_total_seq_len_q(p_.batch * p_.queries).set_max_total_seq_len_kv(p_.batch * p_.keys);
    }
    const FeTensor y = graph_.tensor(fe::graph::Tensor_attributes().set_name("y"));
    const FeTensor grad_y = graph_.tensor(fe::graph::Tensor_attributes().set_name("grad_y"));
    const FeTensor logsumexp = graph_.tensor(fe::graph::Tensor_attributes().set_name("logsumexp"));
    describe_output(*y, kOutput);
    describe_output(*grad_y, kGradOutput);
    describe_logsumexp(*logsumexp);
    auto [grad_query, grad_key, grad_value] = graph_.sdpa_backward(
        queries(kQuery, "query"), keys(kKey, "key"), keys(kValue, "value"), y, grad_y, logsumexp, options);
    describe_queries(*grad_query, kGradQuery).set_output(true);
    describe_keys(*grad_key, kGradKey).set_output(true);
    describe_keys(*grad_value, kGradValue).set_output(true);
    return finish();
  }

 private:
  template <class Options>
  void set(Options& options) {
    options.set_attn_scale(1.0f / std::sqrt(static_cast<float>(p_.width)));
    if (p_.left != Problem::kOpen || p_.right != Problem::kOpen) {
      options.set_diagonal_alignment(p_.at_end != 0 ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                    : fe::DiagonalAlignment_t::TOP_LEFT);
    }
    if (p_.left != Problem::kOpen) options.set_diagonal_band_left_bound(static_cast<int>(p_.left));
    if (p_.right != Problem::kOpen) options.set_diagonal_band_right_bound(static_cast<int>(p_.right));
    if (p_.documents > 0) options.set_padding_mask(true).set_seq_len_q(lengths_).set_seq_len_kv(lengths_);
  }

  FeTensor index(Id id, const char* name, fe::DataType_t type, int64_t size) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(id)
                             .set_data_type(type)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1}));
  }

  fe::graph::Tensor_attributes& describe_queries(fe::graph::Tensor_attributes& tensor, Id id) {
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.heads, p_.queries, p_.width})
        .set_stride({p_.queries * p_.query_width, p_.width, p_.query_width, 1})
        .set_ragged_offset(packed_offsets_);
  }
  fe::graph::Tensor_attributes& describe_keys(fe::graph::Tensor_attributes& tensor, Id id) {
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.key_value_heads, p_.keys, p_.width})
        .set_stride({p_.key_rows * p_.key_width, p_.width, p_.key_width, 1})
        .set_ragged_offset(packed_offsets_);
  }
  fe::graph::Tensor_attributes& describe_output(fe::graph::Tensor_attributes& tensor, Id id) {
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.heads, p_.queries, p_.width})
        .set_stride({p_.queries * p_.heads * p_.width, p_.width, p_.heads * p_.width, 1})
        .set_ragged_offset(output_offsets_);
  }
  // Shape [B, H, Q]; with documents [B, Q, H], because the elements of a document must be contiguous.
  fe::graph::Tensor_attributes& describe_logsumexp(fe::graph::Tensor_attributes& tensor) {
    const int64_t heads = p_.heads, queries = p_.queries;
    tensor.set_uid(kLogsumexp)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({p_.sequences(), heads, queries, 1})
        .set_ragged_offset(logsumexp_offsets_);
    return p_.documents > 0 ? tensor.set_stride({heads * queries, 1, heads, 1})
                            : tensor.set_stride({heads * queries, queries, 1, 1});
  }
  FeTensor queries(Id id, const char* name) {
    const FeTensor tensor = graph_.tensor(fe::graph::Tensor_attributes().set_name(name));
    describe_queries(*tensor, id);
    return tensor;
  }
  FeTensor keys(Id id, const char* name) {
    const FeTensor tensor = graph_.tensor(fe::graph::Tensor_attributes().set_name(name));
    describe_keys(*tensor, id);
    return tensor;
  }

  std::unique_ptr<Graph> finish() {
    check(graph_.build(at::native::getCudnnHandle(), {fe::HeurMode_t::A}), p_);
    check(graph_.get_workspace_size(result_->workspace), p_);
    return std::move(result_);
  }

  const Problem& p_;
  std::unique_ptr<Graph> result_;
  fe::graph::Graph& graph_;
  FeTensor lengths_, packed_offsets_, output_offsets_, logsumexp_offsets_;  // null if there are no documents
};

using Pointers = std::unordered_map<int64_t, void*>;

// Executes the graph of the problem. A graph is built at its first call (a tenth of a second) and kept for the process.
// If `like` has no values, the call is traced, and only its workspace is counted. The workspace of a forward is not
// known without a GPU and counts as 1 byte.
void run(const Problem& problem, Pointers& pointers, const Tensor& like) {
  if (like.is_meta()) return traced_workspace(problem.backward ? problem.backward_workspace() : 1);
  static std::mutex mutex;
  static auto* graphs = new std::map<Problem, std::unique_ptr<Graph>>;
  const std::lock_guard lock(mutex);
  if (fe::cudnn_dlhandle == nullptr) {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);  // LibTorch has already loaded this library
    TORCH_CHECK(fe::cudnn_dlhandle != nullptr, kOp, "/cuda: there is no cuDNN 9: ", dlerror());
  }
  std::unique_ptr<Graph>& graph = (*graphs)[problem];
  if (graph == nullptr) graph = problem.backward ? Builder(problem).backward() : Builder(problem).forward();
  const c10::DataPtr workspace =
      c10::cuda::CUDACachingAllocator::get()->allocate(std::max<int64_t>(graph->workspace, 1));
  check(graph->graph.execute(at::native::getCudnnHandle(), pointers, workspace.get()), problem);
}

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

// Sets the pointers of the query, key and value parts of tensors. key_value is undefined if `packed` has all of them.
void add_parts(Pointers& pointers, const Tensor& packed, const Tensor& key_value, const Problem& p, Id query, Id key,
               Id value) {
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

void add_documents(Pointers& pointers, const DocumentTables& tables) {
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
  Pointers pointers = {{kOutput, y.mutable_data_ptr()}, {kLogsumexp, logsumexp.mutable_data_ptr()}};
  add_parts(pointers, packed, readable_keys(shape), p, kQuery, kKey, kValue);
  add_documents(pointers, tables);
  run(p, pointers, qkv);
  return {y, logsumexp};
}

AttentionOp::Gradient attention_backward_cuda(const Tensor& grad_y, const Tensor& qkv, const Tensor& y,
                                              const Tensor& logsumexp, const Shape& shape) {
  const c10::DeviceGuard device(qkv.device());
  const Problem p = cudnn_problem(qkv, shape, /*backward=*/true);
  const AttentionOp::Gradient gradient = empty_gradient(qkv, shape);
  const auto& [grad, grad_sinks, grad_key_value] = gradient;
  if (grad.numel() == 0) return gradient;
  if (p.key_rows == 1) {
    grad.zero_();
    value_part(grad, p).copy_(at::sum(by_group(grad_y, p), /*dim=*/3, /*keepdim=*/true));
    return gradient;
  }
  const Tensor packed = readable(qkv), grad_rows = readable(grad_y);
  const DocumentTables tables = document_tables(shape.mask, p);
  Pointers pointers = {{kOutput, y.mutable_data_ptr()},
                       {kLogsumexp, logsumexp.mutable_data_ptr()},
                       {kGradOutput, grad_rows.mutable_data_ptr()}};
  const Tensor key_value = readable_keys(shape);
  add_parts(pointers, packed, key_value, p, kQuery, kKey, kValue);
  add_parts(pointers, grad, grad_key_value, p, kGradQuery, kGradKey, kGradValue);
  add_documents(pointers, tables);
  run(p, pointers, qkv);
  if (grad_key_value.defined()) {  // keys that no query sees
    grad_key_value.narrow(1, 0, p.first_key).zero_();
    const int64_t end = p.first_key + p.keys;
    grad_key_value.narrow(1, end, p.key_rows - end).zero_();
  }
  return gradient;
}

}  // namespace strata::kernels
