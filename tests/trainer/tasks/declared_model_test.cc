// SPDX-License-Identifier: MIT
// Checks that each op of a model belongs to one module, whose entry in `kernels.modules` sets its level, and that a
// trace finds the shapes of its calls.
#include "trainer/tasks/declared_model.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "kernels/runtime/call_observer.h"
#include "modules/model_sources.h"
#include "sharding/communication/local_communicator.h"
#include "tests/trainer/data/idx_files.h"
#include "tests/trainer/data/token_files.h"
#include "trainer/config/graph_data_facts.h"
#include "trainer/config/load_config.h"
#include "trainer/prediction/trace_step.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {
namespace {

TrainerConfig config_of(const std::string& model, const std::string& data, int batch, const std::string& more = "") {
  const std::string samples = std::to_string(batch);
  const std::string text = "run: {folder: unused, ranks: 1, device: cpu}\nsteps: 1\nbatch: " + samples +
                           "\nmicro_batch: " + samples + "\nmodel: {" + model + "}\ndata: {" + data +
                           "}\noptimizer: {type: adamw, learning_rate: 1e-2}\nschedule: {type: constant}\n" + more;
  return parse_trainer_config("test.yaml", text, {}).config;
}

std::string language(const std::string& family) {
  return "type: transformer, family: " + family +
         ", layers: 2, width: 8, heads: 2, feed_forward: 12, sequence: 6, vocabulary: 37, dropout: 0.1";
}

std::string text_data() {
  const std::string path = write_own_tokens(/*count=*/200, /*vocabulary=*/37);
  return "type: text, train: " + path + ", validation: " + path;
}

std::string image_data() {
  const std::string path = write_images("declared_model", 8, 6, 4);
  return "type: idx, train_images: " + path + "-images, train_labels: " + path + "-labels, validation_images: " + path +
         "-images, validation_labels: " + path + "-labels";
}

// Writes four graphs, each a ring of three nodes.
std::string graphs_data() {
  const auto write = [](const std::string& name, const std::string& lines) {
    return write_bytes("rings/" + name + ".csv.gz", gzipped(lines));
  };
  const std::filesystem::path folder = write_bytes("here", "");
  for (const char* inner : {"rings/raw", "rings/split/random"}) {
    std::filesystem::create_directories(folder.parent_path() / inner);
  }
  std::string sizes, labels, edges, features;
  for (const char* label : {"0", "1", "0", "1"}) {
    sizes += "3\n";
    labels += std::string(label) + "\n";
    edges += "0,1\n1,2\n2,0\n";
    features += "1,0\n0,1\n1,1\n";
  }
  write("raw/num-node-list", sizes);
  write("raw/num-edge-list", sizes);
  write("raw/graph-label", labels);
  write("raw/edge", edges);
  write("raw/node-feat", features);
  write("split/random/train", "0\n1\n");
  write("split/random/valid", "2\n");
  write("split/random/test", "3\n");
  return "type: ogb_graphs, folder: " + (folder.parent_path() / "rings").string();
}

std::string graph(const std::string& more) {
  return "type: graph_network, layers: 3, width: 12, features: 16, classes: 5, " + more;
}

std::vector<std::pair<std::string, TrainerConfig>> configurations() {
  std::vector<std::pair<std::string, TrainerConfig>> all;
  const auto add = [&](const std::string& name, const TrainerConfig& config) { all.emplace_back(name, config); };
  for (const char* family : {"gpt2", "llama"}) add(family, config_of(language(family), text_data(), 2));
  add("in a number format",
      config_of("type: transformer, family: gpt2, layers: 2, width: 32, heads: 2, sequence: 6, vocabulary: 37",
                text_data(), 2, "precision: {linear: {format: mxfp8, keep: [first]}}"));
  add("untied", config_of(language("llama") + ", tied: false", text_data(), 2));
  add("fused", config_of(language("gpt2"), text_data(), 2, "kernels: {linear_cross_entropy: aten}"));
  const std::string vision =
      "type: vision_transformer, layers: 2, width: 8, heads: 2, image_size: 6, patch: 2, channels: 1, classes: 4";
  add("vision", config_of(vision + ", pooling: mean", image_data(), 4));
  add("vision with all",
      config_of(vision + ", dropout: 0.1, stochastic_depth: 0.5, layer_scale: 0.1", image_data(), 4));
  add("mixer",
      config_of("type: mixer, layers: 2, width: 8, image_size: 6, patch: 2, channels: 1, classes: 4, dropout: 0.1",
                image_data(), 4));
  for (const char* kind : {"sage", "sage, reduction: max", "gcn", "gin", "gat, heads: 2"}) {
    const std::string convolution = std::string("convolution: ") + kind;
    for (const char* more : {"", ", norm: true, dropout: 0.5", ", residual: true", ", projection: dense",
                             ", projection: sparse, norm: true"}) {
      for (const char* sampled : {"", ", neighbors: [3, 3, 3]"}) {
        const std::string data = std::string("type: synthetic_graph, nodes: 60, edges: 400") + sampled;
        add(convolution + more + sampled, config_of(graph(convolution + more), data, 1));
      }
    }
    for (const char* pooling : {"mean", "sum", "attention"}) {
      const std::string model = "type: graph_network, layers: 2, width: 12, features: 2, classes: 2, " + convolution;
      add(convolution + ", pooling: " + pooling, config_of(model + ", pooling: " + pooling, graphs_data(), 2));
    }
  }
  for (const char* model : {"convolution: gin, activation: silu", "convolution: gat, activation: silu, dropout: 0.5",
                            "convolution: sage, activation: gelu, norm: true, dropout: 0.5",
                            "convolution: gcn, activation: gelu_tanh, norm: true, residual: true"}) {
    add(model, config_of(graph(model), "type: synthetic_graph, nodes: 60, edges: 400", 1));
  }
  return all;
}

using Calls = std::map<std::string, std::map<std::string, int64_t>>;  // level, key of `kernels:`

// Counts forward calls.
struct Counter : kernels::CallObserver {
  void call(const kernels::OpShape& shape, kernels::Level level, bool backward, at::ScalarType) override {
    if (!backward) ++calls[std::string(name(level))][std::string(shape.key())];
  }
  Calls calls;
};

// The task of a configuration, with a model whose weights are all 0.1.
class TaskWithModel {
 public:
  explicit TaskWithModel(const TrainerConfig& config) : config_(config), task_(make_task(config)) {
    share_samples(*task_, alone_);
    std::map<std::string, Tensor> parameters;
    for (const modules::ParameterGroup& group : declared_model(config).groups) {
      for (const modules::Parameter& parameter : group.parameters) {
        parameters[parameter.name] = at::full(parameter.shape, 0.1).requires_grad_();
      }
    }
    modules::BindingSource source([&](const std::string& name) { return parameters.at(name); });
    task_->build_model(modules::Scope(source, config.kernels, &config.precision.linear), at::kCPU);
  }
  Tensor loss() const {
    return task_->loss(task_->training_batch(0, config_.micro_batch), at::full({}, 1.0), at::full({1}, 7, at::kLong));
  }

 private:
  const TrainerConfig config_;
  sharding::LocalCommunicator alone_{at::kCPU};
  const std::unique_ptr<Task> task_;
};

// Returns the calls in a loss, and in the work before the first one where that is the same in every step.
Calls calls_of(const TrainerConfig& config) {
  Counter counter;
  const kernels::ObservedCalls observed(counter);
  const TaskWithModel one(config);
  if (!shares_samples(config.model, config.data)) counter.calls.clear();
  one.loss();
  return counter.calls;
}

// Returns the configuration with entries that set this op of this module to torchscript, and nothing else: the same op
// of inner modules stays at aten.
TrainerConfig with_lines(TrainerConfig config, const std::vector<modules::DeclaredModule>& all, const std::string& name,
                         const std::string& key) {
  for (const modules::DeclaredModule& module : all) {
    const bool is_inner = module.name.starts_with(name + ".");
    if (module.name != name && !is_inner) continue;
    modules::ModuleKernels line{.only = module.name, .levels = {}};
    line.levels.each([&](const std::string& op, std::optional<kernels::Level>& level) {
      if (op == key) level = is_inner ? kernels::Level::aten : kernels::Level::torchscript;
    });
    config.kernels.modules.push_back(line);
  }
  return config;
}

TEST(DeclaredModel, EachCallIsThatOfOneModule) {
  for (const auto& [name, config] : configurations()) {
    SCOPED_TRACE(name);
    const Calls plain = calls_of(config);
    ASSERT_EQ(plain.size(), 1u) << "not all at aten";
    std::map<std::string, int64_t> module_calls;
    const std::vector<modules::DeclaredModule> all = declared_model(config).modules;
    for (const modules::DeclaredModule& module : all) {
      for (const std::string_view op : module.ops) {
        const std::string key(op);
        if (module.name.empty()) {  // the loss; updates come after it
          if (key.ends_with("cross_entropy")) ++module_calls[key];
          continue;
        }
        SCOPED_TRACE(module.name + " " + key);
        const Calls calls = calls_of(with_lines(config, all, module.name, key));
        ASSERT_TRUE(calls.contains("torchscript")) << "the line was not followed";
        EXPECT_EQ(calls.at("torchscript").size(), 1u);
        const int64_t moved = calls.at("torchscript").at(key);
        module_calls[key] += moved;
        const auto left = calls.contains("aten") && calls.at("aten").contains(key) ? calls.at("aten").at(key) : 0;
        EXPECT_EQ(left + moved, plain.at("aten").at(key));
      }
    }
    EXPECT_EQ(module_calls, plain.at("aten")) << "calls that belong to no module, or to several";
  }
}

// Counts the forward calls of each shape, such as "linear 16x8->24 bias".
struct ShapeCounter : kernels::CallObserver {
  void call(const kernels::OpShape& shape, kernels::Level, bool backward, at::ScalarType) override {
    if (!backward) add(shape, 1);
  }
  void add(const kernels::OpShape& shape, int64_t count) {
    calls[std::string(shape.op()) + " " + shape.text()] += count;
  }
  std::map<std::string, int64_t> calls;
};

TEST(DeclaredModel, IsTracedWithTheShapesOfItsCalls) {
  for (const auto& [name, config] : configurations()) {
    ShapeCounter traced, real;
    for (const UsedShape& used : used_shapes(config, at::kCPU)) {
      if (used.shape.op() != "adamw" && used.shape.op() != "sum_of_squares") traced.add(used.shape, used.calls);
    }
    const kernels::ObservedCalls observed(real);
    const TaskWithModel one(config);
    if (!shares_samples(config.model, config.data)) real.calls.clear();
    one.loss().backward();  // products in a number format call op linear in their backward
    EXPECT_EQ(traced.calls, real.calls) << name;
  }
}

}  // namespace
}  // namespace strata::trainer
