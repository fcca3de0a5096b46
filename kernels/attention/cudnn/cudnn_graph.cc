// SPDX-License-Identifier: MIT
// This is the only file that includes cudnn-frontend, because its headers take a minute to compile.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width
#include "kernels/attention/cudnn/cudnn_graph.h"

#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/runtime/traced.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // cudnn-frontend's headers load cuDNN's functions through this handle
}

namespace strata::kernels {
namespace {

namespace fe = cudnn_frontend;
namespace modifiers = fe::graph::attn::score_modifiers;
using FeTensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using FeGraph = std::shared_ptr<fe::graph::Graph>;

constexpr auto kOp = AttentionOp::kName;

struct Graph {
  fe::graph::Graph graph;
  int64_t workspace = 0;
};

std::string bound_text(int64_t bound) { return bound == CudnnProblem::kOpen ? "none" : std::to_string(bound); }

void check(fe::error_t status, const CudnnProblem& p) {
  TORCH_CHECK(status.is_good(), kOp, "/cuda", p.backward ? " backward" : "", ": cuDNN refused [B ", p.batch, ", Q ",
              p.queries, ", T ", p.keys, ", H ", p.heads, ", K ", p.key_value_heads, ", D ", p.width, "] left bound ",
              bound_text(p.left), " right bound ", bound_text(p.right), p.documents > 0 ? " documents" : "",
              p.alibi ? " alibi" : "", p.softcap != 0 ? " softcap" : "", p.sinks ? " sinks" : "",
              p.deterministic ? " deterministic" : "", ": ", status.get_message());
}

bool has_band(const CudnnProblem& p) { return p.left != CudnnProblem::kOpen || p.right != CudnnProblem::kOpen; }

fe::DiagonalAlignment_t alignment(const CudnnProblem& p) {
  return p.at_end != 0 ? fe::DiagonalAlignment_t::BOTTOM_RIGHT : fe::DiagonalAlignment_t::TOP_LEFT;
}

// Softcap of scores and the pattern after it. With a function of scores, cudnn-frontend refuses its own options for
// patterns. So the function masks the scores as well, by the operations that cudnn-frontend itself uses. cuDNN knows
// them, and skips tiles without a visible pair.
class CappedScores {
 public:
  // `lengths` of documents is null if there are none.
  CappedScores(const CudnnProblem& p, const FeTensor& lengths)
      : p_(p), lengths_(lengths), cap_(std::make_shared<fe::graph::Tensor_attributes>(static_cast<float>(p.softcap))) {}

  FeTensor forward(const FeGraph& graph, const FeTensor& scores) {
    FeTensor result = softcap_.forward(graph, scores, cap_);
    if (lengths_ != nullptr) result = modifiers::padding_mask(graph, result, lengths_, lengths_);
    if (!has_band(p_)) return result;
    return modifiers::sliding_window_mask(graph, result, alignment(p_), bound(p_.left), bound(p_.right), p_.queries,
                                          p_.keys, nullptr, nullptr);
  }
  FeTensor backward(const FeGraph& graph, const FeTensor& gradient) { return softcap_.backward(graph, gradient, cap_); }

 private:
  static std::optional<int64_t> bound(int64_t value) {
    return value == CudnnProblem::kOpen ? std::nullopt : std::optional(value);
  }

  const CudnnProblem p_;
  const FeTensor lengths_, cap_;
  modifiers::Softcap softcap_;
};

class Builder {
 public:
  explicit Builder(const CudnnProblem& p) : p_(p), result_(std::make_unique<Graph>()), graph_(result_->graph) {
    graph_.set_io_data_type(p.half ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (p.documents > 0) {
      lengths_ = index(kLengths, "lengths", fe::DataType_t::INT32, p.documents);
      packed_offsets_ = index(kPackedOffsets, "packed_offsets", fe::DataType_t::INT64, p.documents + 1);
      output_offsets_ = index(kOutputOffsets, "output_offsets", fe::DataType_t::INT64, p.documents + 1);
      logsumexp_offsets_ = index(kLogsumexpOffsets, "logsumexp_offsets", fe::DataType_t::INT64, p.documents + 1);
    }
    if (p.softcap != 0) capped_ = std::make_shared<CappedScores>(p, lengths_);
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
    if (capped_ != nullptr) {
      options.set_score_mod_bprop([capped = capped_](const FeGraph& graph, const FeTensor& gradient) {
        return capped->backward(graph, gradient);
      });
    }
    if (p_.sinks != 0) {
      const FeTensor gradient = sinks(kGradSinks, "gradient of sinks");
      gradient->set_output(true);
      options.set_dsink_token(gradient);
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
    if (p_.documents > 0) options.set_seq_len_q(lengths_).set_seq_len_kv(lengths_);
    if (p_.sinks != 0) options.set_sink_token(sinks(kSinks, "sinks"));
    if (capped_ != nullptr) {
      options.set_score_mod(
          [capped = capped_](const FeGraph& graph, const FeTensor& scores) { return capped->forward(graph, scores); });
      return;
    }
    if (has_band(p_)) options.set_diagonal_alignment(alignment(p_));
    if (p_.left != CudnnProblem::kOpen) options.set_diagonal_band_left_bound(static_cast<int>(p_.left));
    if (p_.right != CudnnProblem::kOpen) options.set_diagonal_band_right_bound(static_cast<int>(p_.right));
    options.set_alibi_mask(p_.alibi != 0).set_padding_mask(p_.documents > 0);
  }

  FeTensor sinks(CudnnTensor id, const char* name) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(id)
                             .set_data_type(fe::DataType_t::FLOAT)
                             .set_dim({1, p_.heads, 1, 1})
                             .set_stride({p_.heads, 1, 1, 1}));
  }
  FeTensor index(CudnnTensor id, const char* name, fe::DataType_t type, int64_t size) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(id)
                             .set_data_type(type)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1}));
  }

  fe::graph::Tensor_attributes& describe_queries(fe::graph::Tensor_attributes& tensor, CudnnTensor id) {
    const CudnnProblem::Rows& rows = id == kGradQuery ? p_.grad_query_rows : p_.query_rows;
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.heads, p_.queries, p_.width})
        .set_stride({rows.count * rows.width, p_.width, rows.width, 1})
        .set_ragged_offset(packed_offsets_);
  }
  fe::graph::Tensor_attributes& describe_keys(fe::graph::Tensor_attributes& tensor, CudnnTensor id) {
    const CudnnProblem::Rows& rows = id == kGradKey || id == kGradValue ? p_.grad_key_rows : p_.key_rows;
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.key_value_heads, p_.keys, p_.width})
        .set_stride({rows.count * rows.width, p_.width, rows.width, 1})
        .set_ragged_offset(packed_offsets_);
  }
  fe::graph::Tensor_attributes& describe_output(fe::graph::Tensor_attributes& tensor, CudnnTensor id) {
    return tensor.set_uid(id)
        .set_dim({p_.sequences(), p_.heads, p_.queries, p_.width})
        .set_stride({p_.query_rows.count * p_.heads * p_.width, p_.width, p_.heads * p_.width, 1})
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
  FeTensor queries(CudnnTensor id, const char* name) {
    const FeTensor tensor = graph_.tensor(fe::graph::Tensor_attributes().set_name(name));
    describe_queries(*tensor, id);
    return tensor;
  }
  FeTensor keys(CudnnTensor id, const char* name) {
    const FeTensor tensor = graph_.tensor(fe::graph::Tensor_attributes().set_name(name));
    describe_keys(*tensor, id);
    return tensor;
  }

  std::unique_ptr<Graph> finish() {
    check(graph_.build(at::native::getCudnnHandle(), {fe::HeurMode_t::A}), p_);
    check(graph_.get_workspace_size(result_->workspace), p_);
    return std::move(result_);
  }

  const CudnnProblem& p_;
  std::unique_ptr<Graph> result_;
  fe::graph::Graph& graph_;
  FeTensor lengths_, packed_offsets_, output_offsets_, logsumexp_offsets_;  // null if there are no documents
  std::shared_ptr<CappedScores> capped_;                                    // null without a softcap
};

}  // namespace

void run_cudnn(const CudnnProblem& problem, CudnnPointers& pointers, const Tensor& like) {
  if (like.is_meta()) return traced_workspace(problem.backward ? problem.backward_workspace() : 1);
  static std::mutex mutex;
  static auto* graphs = new std::map<CudnnProblem, std::unique_ptr<Graph>>;
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

}  // namespace strata::kernels
