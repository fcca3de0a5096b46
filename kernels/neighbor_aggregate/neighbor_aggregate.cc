// SPDX-License-Identifier: MIT
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

#include <ATen/ops/diff.h>
#include <ATen/ops/repeat_interleave.h>

#include "kernels/neighbor_aggregate/neighbor_aggregate_aten.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_formula.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "kernels/runtime/call.h"
#include "kernels/runtime/recorded.h"
#include "kernels/runtime/torchscript_runtime.h"
#include "kernels/runtime/traced.h"

namespace strata::kernels {

template <>
inline constexpr bool kHasNoGradients<NeighborGraph> = true;

namespace {

NeighborAggregateOp::Output aggregate_forward_aten(const Tensor& x_SF, const NeighborGraph& graph,
                                                   const Tensor& edge_weight_E, Reduction reduction) {
  return (on_cpu(x_SF) ? aggregate_by_loops : aggregate_by_segments)(x_SF, graph, edge_weight_E, reduction);
}

NeighborAggregateOp::Gradient aggregate_backward_aten(const Tensor& grad_y_TF, const Tensor& x_SF,
                                                      const NeighborGraph& graph, const Tensor& edge_weight_E,
                                                      Reduction reduction, const Tensor& largest_TF,
                                                      const NeighborAggregateOp::Wanted& wanted,
                                                      const GradientDestination& into) {
  return (on_cpu(grad_y_TF) ? aggregate_backward_by_loops : aggregate_backward_by_segments)(
      grad_y_TF, x_SF, graph, edge_weight_E, reduction, largest_TF, wanted, into);
}

NeighborAttentionOp::Output attention_forward_aten(const Tensor& x_SHF, const Tensor& score_source_SH,
                                                   const Tensor& score_target_TH, const NeighborGraph& graph,
                                                   double negative_slope) {
  return (on_cpu(x_SHF) ? attend_by_loops : attend_by_segments)(x_SHF, score_source_SH, score_target_TH, graph,
                                                                negative_slope);
}

NeighborAttentionOp::Gradient attention_backward_aten(const Tensor& grad_y_THF, const Tensor& x_SHF,
                                                      const Tensor& score_source_SH, const Tensor& score_target_TH,
                                                      const NeighborGraph& graph, double negative_slope,
                                                      const Tensor& y_THF, const Tensor& logsumexp_TH) {
  return (on_cpu(x_SHF) ? attend_backward_by_loops : attend_backward_by_segments)(
      grad_y_THF, x_SHF, score_source_SH, score_target_TH, graph, negative_slope, y_THF, logsumexp_TH);
}

Tensor target_of_edge(const NeighborGraph& graph) {
  return at::repeat_interleave(at::diff(graph.by_target.offsets), std::optional<int64_t>(graph.edges()));
}

NeighborAggregateOp::Output aggregate_forward_torchscript(const Tensor& x_SF, const NeighborGraph& graph,
                                                          const Tensor& edge_weight_E, Reduction reduction) {
  static const Formula formula(kFormula, "neighbor_aggregate");
  const Tensor y = formula(x_SF, graph.by_target.offsets, graph.by_target.neighbors, target_of_edge(graph),
                           edge_weight_E, std::string(name(reduction)));
  return {y, Tensor()};
}

NeighborAttentionOp::Output attention_forward_torchscript(const Tensor& x_SHF, const Tensor& score_source_SH,
                                                          const Tensor& score_target_TH, const NeighborGraph& graph,
                                                          double negative_slope) {
  static const Formula formula(kFormula, "neighbor_attention");
  const Tensor y = formula(x_SHF, score_source_SH, score_target_TH, graph.by_target.offsets, graph.by_target.neighbors,
                           target_of_edge(graph), negative_slope);
  return {y, Tensor()};
}

constexpr Absent kNoSegments{"Inductor sums rows of unequal length only by scattering, whose order varies"};

NeighborAggregateShape shape_of(const Tensor& rows, const NeighborGraph& graph, const Tensor& edge_weight,
                                Reduction reduction) {
  return {.targets = graph.targets,
          .sources = graph.sources,
          .width = rows.size(1),
          .edges = graph.edges(),
          .reduction = reduction,
          .weighted = edge_weight.defined()};
}

NeighborAttentionShape shape_of(const Tensor& x, const NeighborGraph& graph) {
  return {.targets = graph.targets,
          .sources = graph.sources,
          .heads = x.size(1),
          .head_width = x.size(2),
          .edges = graph.edges()};
}

struct NeighborAggregateFunction : Recorded<NeighborAggregateFunction, NeighborAggregateOp> {
  static Tensor forward(AutogradContext* context, const Kernel<NeighborAggregateOp>& kernel, const Tensor& x,
                        const Tensor& edge_weight, const NeighborGraph& graph, Reduction reduction) {
    const auto [y, largest] = kernel.forward(x, graph, edge_weight, reduction);
    // Only the gradient of edge_weight needs the values of x. A leaf x is saved because take_gradient_destination()
    // needs it.
    const bool needs_x = x.is_leaf() || (edge_weight.defined() && edge_weight.requires_grad());
    context->save_for_backward({needs_x ? x : Tensor(), edge_weight, largest});
    return y;
  }
  static variable_list backward(AutogradContext* context, const Kernel<NeighborAggregateOp>& kernel,
                                const variable_list& gradients, const NeighborGraph& graph, Reduction reduction) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &edge_weight = saved[1], &largest = saved[2];
    const NeighborAggregateOp::Wanted wanted = {context->needs_input_grad(0),
                                                edge_weight.defined() && context->needs_input_grad(1)};
    const GradientDestination into = wanted.x ? take_gradient_destination(x) : GradientDestination();
    const auto gradient = kernel.backward(gradients[0], x, graph, edge_weight, reduction, largest, wanted, into);
    return {gradient.x, gradient.edge_weight};
  }
};

struct NeighborAttentionFunction : Recorded<NeighborAttentionFunction, NeighborAttentionOp> {
  static Tensor forward(AutogradContext* context, const Kernel<NeighborAttentionOp>& kernel, const Tensor& x,
                        const Tensor& score_source, const Tensor& score_target, const NeighborGraph& graph,
                        double negative_slope) {
    const auto [y, logsumexp] = kernel.forward(x, score_source, score_target, graph, negative_slope);
    context->save_for_backward({x, score_source, score_target, y, logsumexp});
    return y;
  }
  static variable_list backward(AutogradContext* context, const Kernel<NeighborAttentionOp>& kernel,
                                const variable_list& gradients, const NeighborGraph& graph, double negative_slope) {
    const variable_list saved = context->get_saved_variables();
    const auto gradient =
        kernel.backward(gradients[0], saved[0], saved[1], saved[2], graph, negative_slope, saved[3], saved[4]);
    return {gradient.x, gradient.score_source, gradient.score_target};
  }
};

void check_graph(std::string_view op, const Tensor& x, const NeighborGraph& graph, Level level) {
  require(graph.device() == x.device(), op, level, "x is on ", x.device(), " and the graph on ", graph.device(),
          ", expected one device");
}

// Checks that a tensor has these sizes, the device of x, and the dtype of x or fp32.
void check_beside(std::string_view op, std::string_view name, const Tensor& tensor, at::IntArrayRef sizes,
                  const Tensor& x, Level level) {
  const at::ScalarType type = tensor.scalar_type();
  require((type == x.scalar_type() || type == at::kFloat) && tensor.sizes() == sizes && tensor.device() == x.device(),
          op, level, name, " is ", type, " ", tensor.sizes(), " on ", tensor.device(),
          ", expected Float or the type of x, ", x.scalar_type(), ", ", sizes, " on ", x.device());
}

}  // namespace

constinit const KernelTable<NeighborAggregateOp> NeighborAggregateOp::kKernels = {
    .aten = {aggregate_forward_aten, aggregate_backward_aten},
    .torchscript = {aggregate_forward_torchscript, nullptr},
    .aot_inductor = kNoSegments,
    .triton = {neighbor_aggregate_forward_triton, neighbor_aggregate_backward_triton},
    .cuda = {neighbor_aggregate_forward_cuda, neighbor_aggregate_backward_cuda},
};

constinit const KernelTable<NeighborAttentionOp> NeighborAttentionOp::kKernels = {
    .aten = {attention_forward_aten, attention_backward_aten},
    .torchscript = {attention_forward_torchscript, nullptr},
    .aot_inductor = kNoSegments,
    .triton = {neighbor_attention_forward_triton, neighbor_attention_backward_triton},
    .cuda = {neighbor_attention_forward_cuda, neighbor_attention_backward_cuda},
};

Tensor neighbor_aggregate(const Tensor& x_SF, const NeighborGraph& graph, const Tensor& edge_weight_E,
                          Reduction reduction, Level level) {
  constexpr auto op = NeighborAggregateOp::kName;
  const Kernel<NeighborAggregateOp>& kernel = NeighborAggregateOp::kKernels.at(level, x_SF.device());
  require(x_SF.is_floating_point() && x_SF.dim() == 2 && x_SF.size(0) == graph.sources, op, level, "x is ",
          x_SF.scalar_type(), " ", x_SF.sizes(), ", expected floating point [", graph.sources,
          ", features], a row for each source of the graph");
  check_graph(op, x_SF, graph, level);
  if (edge_weight_E.defined()) check_beside(op, "edge_weight", edge_weight_E, {graph.edges()}, x_SF, level);
  if (kernel.backward != nullptr) {
    return NeighborAggregateFunction::apply(level, shape_of(x_SF, graph, edge_weight_E, reduction), x_SF,
                                            if_defined(edge_weight_E), graph, reduction);
  }
  const CallScope scope(op, level, x_SF, [&] { return shape_of(x_SF, graph, edge_weight_E, reduction); });
  return kernel.forward(with_gradient_destination(x_SF), graph, edge_weight_E, reduction).y;
}

Tensor neighbor_attention(const Tensor& x_SHF, const Tensor& score_source_SH, const Tensor& score_target_TH,
                          const NeighborGraph& graph, double negative_slope, Level level) {
  constexpr auto op = NeighborAttentionOp::kName;
  const Kernel<NeighborAttentionOp>& kernel = NeighborAttentionOp::kKernels.at(level, x_SHF.device());
  require(x_SHF.is_floating_point() && x_SHF.dim() == 3 && x_SHF.size(0) == graph.sources, op, level, "x is ",
          x_SHF.scalar_type(), " ", x_SHF.sizes(), ", expected floating point [", graph.sources,
          ", heads, features], a row for each source of the graph");
  check_graph(op, x_SHF, graph, level);
  check_beside(op, "score_source", score_source_SH, {graph.sources, x_SHF.size(1)}, x_SHF, level);
  check_beside(op, "score_target", score_target_TH, {graph.targets, x_SHF.size(1)}, x_SHF, level);
  if (kernel.backward != nullptr) {
    return NeighborAttentionFunction::apply(level, shape_of(x_SHF, graph), x_SHF, score_source_SH, score_target_TH,
                                            graph, negative_slope);
  }
  const CallScope scope(op, level, x_SHF, [&] { return shape_of(x_SHF, graph); });
  return kernel.forward(x_SHF, score_source_SH, score_target_TH, graph, negative_slope).y;
}

}  // namespace strata::kernels
