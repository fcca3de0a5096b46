// SPDX-License-Identifier: MIT
// model_values CONFIG WEIGHTS INPUTS FOLDER: computes logits, loss and gradients of a model with the weights of a
// folder, and writes them as safetensors. INPUTS has sequences (int64, each one token longer than the model's sequence)
// or images (fp32, the input of the model; image i has label i modulo the classes).
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/remainder.h>

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/end_process.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/image/image_model.h"
#include "modules/model_sources.h"
#include "modules/rotary_tables.h"
#include "modules/transformer.h"
#include "tools/weights/weights_writer.h"
#include "trainer/checkpoint/weights_folder.h"
#include "trainer/config/load_config.h"
#include "trainer/tasks/declared_model.h"

namespace strata {
namespace {

using at::Tensor;

using Parameters = std::map<std::string, Tensor>;

// Reads a file that holds only numbers, `columns` per row.
Tensor read_rows(const std::string& path, int64_t columns, at::ScalarType dtype) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t rows = file.tellg() / static_cast<int64_t>(c10::elementSize(dtype)) / columns;
  const Tensor values = at::empty({rows, columns}, dtype);
  file.seekg(0);
  file.read(static_cast<char*>(values.mutable_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  return values;
}

struct Results {
  Tensor logits, targets;
};

Results run(const modules::TransformerConfig& config, const trainer::TrainerConfig& all, const Parameters& parameters,
            const std::string& ids_path) {
  modules::BindingSource source([&](const std::string& name) { return parameters.at(name); });
  const modules::Transformer model(config, modules::Scope(source, all.kernels));
  modules::StepContext context;
  if (config.has_rotary_positions()) {
    context.put(std::make_shared<const modules::RotaryTables>(modules::rotary_tables(config, config.sequence)));
  }
  const Tensor ids = read_rows(ids_path, config.sequence + 1, at::kLong);
  const Tensor hidden = model(ids.narrow(1, 0, config.sequence).contiguous(), context);
  return {model.logits(hidden), ids.narrow(1, 1, config.sequence).reshape({-1})};
}

template <modules::TakesImages Model>
Results run(const Model& config, const trainer::TrainerConfig& all, const Parameters& parameters,
            const std::string& images_path) {
  modules::BindingSource source([&](const std::string& name) { return parameters.at(name); });
  const auto model = modules::make_image_model(all.model, modules::Scope(source, all.kernels));
  const modules::ImageSizes sizes = config.image_sizes();
  const Tensor images = read_rows(images_path, sizes.channels * sizes.size * sizes.size, at::kFloat);
  return {(*model)(images.view({-1, sizes.channels, sizes.size, sizes.size}), {}),
          at::arange(images.size(0), at::kLong).remainder(sizes.classes)};
}

template <class Model>
void write_values(const Model& model, const trainer::TrainerConfig& config, const std::string& weights_path,
                  const std::string& inputs_path, const std::string& folder) {
  const trainer::WeightsFolder weights(weights_path);
  Parameters parameters;
  for (const auto& group : trainer::declared_groups({.type = model})) {
    for (const auto& parameter : group.parameters) {
      parameters[parameter.name] =
          weights.read(parameter.name, 0, parameter.elements()).view(parameter.shape).set_requires_grad(true);
    }
  }
  const auto [logits, targets] = run(model, config, parameters, inputs_path);
  const Tensor values = logits.detach().clone();
  const Tensor scale = at::full({}, 1.0 / static_cast<double>(targets.numel()), at::kFloat);
  const Tensor loss =
      kernels::cross_entropy(logits.view({-1, logits.size(-1)}), targets, scale, -100, 0.0, kernels::Level::aten);
  loss.backward();

  std::vector<tools::Weight> results;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    results.push_back({name, tensor.sizes().vec(), [tensor] { return tensor.contiguous(); }});
  };
  add("logits", values);
  add("loss", loss.detach());
  for (const auto& [name, parameter] : parameters) add(name, parameter.grad());
  write_weights(folder, std::move(results), tools::kDefaultFileBytes);
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const auto config = strata::trainer::load_trainer_config(arguments[1], {}).config;
  const auto write = [&]<class Model>(const Model& model) {
    if constexpr (std::is_same_v<Model, strata::modules::GraphNetworkConfig>) {
      throw std::invalid_argument("weights of graph networks come from nowhere else");
    } else {
      strata::write_values(model, config, arguments[2], arguments[3], arguments[4]);
    }
  };
  std::visit(write, config.model.type);
  strata::end_process(0);
}
