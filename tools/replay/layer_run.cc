// SPDX-License-Identifier: MIT
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/text/printable.h"
#include "kernels/quantize/delayed_scale.h"
#include "kernels/runtime/gradient_destination.h"
#include "modules/graph/graph_step.h"
#include "modules/model_sources.h"
#include "modules/recompute.h"
#include "modules/rotary_tables.h"
#include "modules/sequences.h"
#include "sharding/rank_session.h"
#include "tools/replay/modes.h"
#include "tools/replay/op_check.h"
#include "tools/replay/saved_layer.h"
#include "trainer/config/scalar_type.h"
#include "trainer/memory/refused_memory.h"
#include "trainer/start_rank.h"
#include "trainer/tasks/declared_model.h"
#include "trainer/tasks/load_run_config.h"

namespace strata::tools {
namespace {

using at::Tensor;

void print(const std::string& line) { std::printf("%s\n", printable_lines(line).c_str()); }

// The saved layer on a device, built as the run built it. Other parameters of the model have no values.
class LayerAlone {
 public:
  LayerAlone(const std::string& folder, const SavedLayer& saved, const trainer::TrainerConfig& config,
             at::Device device)
      : folder_(folder), saved_(saved), device_(device) {
    int64_t layers = 0;
    for (const auto& group : trainer::declared_model(config).groups) {
      const bool is_saved = group.role == modules::Role::layer && layers++ == saved_.layer;
      if (is_saved && group.name != saved_.name) {
        refuse("layer " + std::to_string(saved_.layer) + " is " + group.name + ", not " + printable(saved_.name));
      }
      bind(group, is_saved);
    }
    if (saved_.layer >= layers) {
      refuse("it is of layer " + std::to_string(saved_.layer) + ", the model has " + std::to_string(layers));
    }
    const trainer::Recompute recompute = config.gradient_checkpointing.of(saved_.layer);
    modules::BindingSource source([this](const std::string& name) { return parameters_.at(name); },
                                  [this](const std::string& module) { return scales_of(module); },
                                  std::make_shared<const bool>(config.sparsity.is_on_in(saved_.step)));
    const modules::Scope scope(source, config.kernels, &config.precision.linear, &config.sparsity);
    trainer::construct_model(config, scope, [&](int64_t index, modules::Layer layer) {
      if (index == saved_.layer) layer_ = as_in_the_run(layer, config.precision, recompute);
      return layer;
    });
  }

  ~LayerAlone() {
    for (const auto& [name, parameter] : parameters_) kernels::clear_gradient_destination(parameter);
  }

  // Runs forward and backward, and keeps what they compute. If an op refuses its inputs, the error says that the folder
  // does not fit its configuration. A lack of memory and an error of the GPU are thrown on, because they say nothing
  // about the folder.
  void run() {
    try {
      forward_and_backward();
    } catch (const c10::AcceleratorError&) {
      throw;
    } catch (const c10::Error& error) {
      if (trainer::refused_by_gpu(error) || trainer::refused_by_host(error)) throw;
      refuse(error.what_without_backtrace());
    }
  }

  // Returns the facts of weights, inputs and context, which the forward reads.
  TensorFacts facts_of_inputs() const {
    TensorFacts facts;
    for (const auto& [name, tensor] : saved_.tensors) {
      if (!name.starts_with("output_gradient.")) facts = facts + facts_of(tensor);
    }
    return facts;
  }

  TensorFacts facts_of_outputs() const { return facts_of(outputs_[0]) + facts_of(outputs_[1]); }

  TensorFacts facts_of_gradients() const {
    TensorFacts facts;
    for (const Tensor& input : inputs_) facts = facts + facts_of(input.defined() ? input.grad() : input);
    for (const auto& [name, gradient] : gradients_) facts = facts + facts_of(gradient);
    return facts;
  }

 private:
  void forward_and_backward() {
    for (size_t i = 0; i < kStreamParts.size(); ++i) {
      const Tensor* const input = saved_.find(std::string("input.") + kStreamParts[i]);
      if (input != nullptr) inputs_[i] = input->to(device_).requires_grad_(true);
    }
    if (!inputs_[0].defined()) refuse("it has no input.residual");
    const modules::ResidualStream output = layer_({inputs_[0], inputs_[1]}, context());
    outputs_ = {output.residual, output.branch};
    torch::autograd::variable_list roots, gradients;
    for (size_t i = 0; i < kStreamParts.size(); ++i) {
      const Tensor* const gradient = saved_.find(std::string("output_gradient.") + kStreamParts[i]);
      if (gradient == nullptr || !outputs_[i].defined() || !outputs_[i].requires_grad()) continue;
      if (gradient->sizes() != outputs_[i].sizes()) refuse("a gradient has not the shape of the layer's output");
      roots.push_back(outputs_[i]);
      gradients.push_back(gradient->to(device_));
    }
    if (roots.empty() && saved_.backward) refuse("it has no gradient of an output, which its backward needs");
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
  }

  // Gives the parameters of the saved layer their values, and a buffer for their gradients as in the run.
  void bind(const modules::ParameterGroup& group, bool is_saved) {
    for (const modules::Parameter& parameter : group.parameters) {
      if (!is_saved) {
        parameters_[parameter.name] = at::empty(parameter.shape, at::kMeta).requires_grad_(true);
        continue;
      }
      const Tensor* const values = saved_.find("weight." + parameter.name);
      if (values == nullptr || values->sizes() != parameter.shape) {
        refuse("it has no weight." + parameter.name + " of the shape that resolved.yaml gives it");
      }
      const Tensor weight = parameters_[parameter.name] = values->to(device_).requires_grad_(true);
      const Tensor into = gradients_[parameter.name] =
          at::zeros(parameter.shape, at::device(device_).dtype(gradient_type(saved_)));
      kernels::set_gradient_destination(weight, [into, written = false]() mutable {
        return kernels::GradientDestination{into, std::exchange(written, true)};
      });
    }
  }

  // Returns the delayed scales of a module of the saved layer as they were in the step. Nothing is recorded.
  kernels::DelayedScales scales_of(const std::string& module) const {
    if (!module.starts_with(saved_.name + ".")) return {};
    const Tensor* const saved = saved_.find("amax." + module);
    if (saved == nullptr || saved->scalar_type() != at::kFloat || saved->sizes() != at::IntArrayRef{3}) {
      refuse("it has no amax." + module + " (F32 [3]), from which its delayed scales follow");
    }
    const Tensor amax = saved->to(device_);
    const auto scale = [&](int64_t operand) { return kernels::DelayedScale{amax.narrow(0, operand, 1), {}}; };
    return {.x = scale(0), .weight = scale(1), .gradient = scale(2)};
  }

  // Casts and recomputes as trainer/model/sharded_model.cc does.
  modules::Layer as_in_the_run(modules::Layer layer, const trainer::PrecisionConfig& precision,
                               trainer::Recompute recompute) const {
    if (precision.is_mixed()) {
      const at::ScalarType type = trainer::scalar_type(precision.compute_of(saved_.name));
      layer = [type, layer = std::move(layer)](const modules::ResidualStream& stream,
                                               const modules::StepContext& context) {
        return layer(modules::cast_stream(stream, type), context);
      };
    }
    if (recompute == trainer::Recompute::full) return modules::recompute(std::move(layer));
    if (recompute == trainer::Recompute::selective) return modules::recompute_selectively(std::move(layer));
    return layer;
  }

  modules::StepContext context() const {
    modules::StepContext context;
    context.first_row = saved_.first_row;
    if (const Tensor* const key = saved_.find("context.dropout_key")) context.dropout_key = key->to(device_);
    const Tensor *const cosine = saved_.find("context.cosine"), *const sine = saved_.find("context.sine");
    if (cosine != nullptr && sine != nullptr) {
      context.put(
          std::make_shared<const modules::RotaryTables>(modules::RotaryTables{cosine->to(device_), sine->to(device_)}));
    }
    if (const Tensor* const offsets = saved_.find("context.document_offsets")) {
      require_documents(*offsets);
      context.put(std::make_shared<const modules::Documents>(modules::Documents{offsets->to(device_), {}}));
    }
    if (auto graph = graph_step()) context.put(std::shared_ptr<const modules::GraphStep>(std::move(graph)));
    return context;
  }

  // Kernels on GPUs read what offsets say, and do not check them.
  void require_documents(const Tensor& offsets) const {
    if (inputs_[0].dim() != 3 || offsets.scalar_type() != at::kInt || offsets.dim() != 1 || offsets.size(0) < 2 ||
        inputs_[0].size(1) == 0) {
      refuse("its context.document_offsets are no list of documents");
    }
    const std::span ends(offsets.const_data_ptr<int32_t>(), static_cast<size_t>(offsets.size(0)));
    const int64_t positions = inputs_[0].size(1);
    const bool is_whole = ends.front() == 0 && ends.back() == inputs_[0].size(0) * positions;
    for (size_t i = 1; i < ends.size(); ++i) {
      const bool crosses_row = ends[i - 1] / positions < (ends[i] - 1) / positions && ends[i] > ends[i - 1];
      if (!is_whole || ends[i] < ends[i - 1] || crosses_row) {
        refuse("its context.document_offsets do not divide the rows of input.residual into documents");
      }
    }
  }

  // Null if the layer reads no graph.
  std::shared_ptr<modules::GraphStep> graph_step() const {
    const Tensor* const offsets = saved_.find("context.graph_offsets");
    const Tensor* const neighbors = saved_.find("context.graph_neighbors");
    if (offsets == nullptr || neighbors == nullptr) return nullptr;
    // The number of sources decides how much memory the graph takes, so it must not be larger than what is in the file.
    if (saved_.sources > inputs_[0].size(0)) {
      refuse("its graph has " + std::to_string(saved_.sources) + " sources, and input.residual " +
             std::to_string(inputs_[0].size(0)) + " rows");
    }
    auto step = std::make_shared<modules::GraphStep>();
    const auto on_device = [this](const char* name) {
      const Tensor* const tensor = saved_.find(name);
      return tensor == nullptr ? Tensor() : tensor->to(device_);
    };
    const auto graph = kernels::NeighborGraph::from_csr(*offsets, *neighbors, saved_.sources);
    const modules::WeightedGraph weighted{graph.to(device_), on_device("context.edge_weight")};
    step->layers.assign(1, weighted);  // every layer has the single graph
    step->aggregated_features = on_device("context.aggregated_features");
    step->first_row = saved_.first_row;
    return step;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::storage, folder_ + " cannot be run: " + what);
  }

  const std::string& folder_;
  const SavedLayer& saved_;
  const at::Device device_;
  std::map<std::string, Tensor> parameters_, gradients_;  // gradients: of the layer alone
  modules::Layer layer_;
  std::array<Tensor, 2> inputs_, outputs_;
};

ExitCode run(trainer::LoadedConfig loaded, const std::string& folder, const SavedLayer& saved) {
  sharding::RankSession session({.timeout_seconds = loaded.config.run.timeout});
  trainer::start_rank(loaded, session);
  LayerAlone layer(folder, saved, loaded.config, session.device());
  print("layer " + std::to_string(saved.layer) + " (" + saved.name + "), step " + std::to_string(saved.step) +
        ", micro-batch " + std::to_string(saved.micro_batch) + ", rank " + std::to_string(saved.rank) + " of " +
        std::to_string(saved.ranks));
  OpCheck ops;
  ops.begin();
  layer.run();
  ops.end();
  session.pause_watchdog();
  for (const CheckedOp& op : ops.ops()) {
    print(op.name + ": inputs " + to_text(op.inputs) + "; outputs " + to_text(op.outputs) +
          (op.makes_nonfinite() ? " <- makes them" : ""));
  }
  const TensorFacts outputs = layer.facts_of_outputs(), gradients = layer.facts_of_gradients();
  print("outputs of the layer: " + to_text(outputs) + "\ngradients that the layer computes: " + to_text(gradients));
  if ((saved.backward ? gradients : outputs).finite()) {
    print(std::string("not reproduced: ") + (saved.backward ? "the gradients are" : "the output is") + " finite");
    return ExitCode::done;
  }
  std::string maker = ops.first_maker();
  if (maker.empty()) {
    maker = layer.facts_of_inputs().finite() ? "no op of LibTorch made it, so look at the kernels of the layer"
                                             : "the layer was given values that are not finite";
  }
  print("reproduced: " + maker);
  return ExitCode::numerics;
}

}  // namespace

ExitCode run_saved_layer(const std::string& folder, const std::vector<std::string>& overrides) {
  const SavedLayer saved = read_layer(folder);
  const std::string config = folder + "/" + kSavedLayerConfig;
  if (trainer::load_run_config(config, {"fault={kind: none}"}).config.sharding.sequence > 1) {
    throw Error(ExitCode::configuration,
                folder +
                    ": the ranks of this run share sequences (sharding.sequence), so its layers need the keys and "
                    "values of other ranks and do not run alone; tools/strata replay RUN runs the whole step");
  }
  std::vector<std::string> all = {"run.ranks=1", "sharding.strategy=none", "sharding.shard_ranks=0",
                                  "fault={kind: none}", "run.deterministic=true"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return run(trainer::load_run_config(config, all), folder, saved);
}

}  // namespace strata::tools
