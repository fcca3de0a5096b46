// SPDX-License-Identifier: MIT
// model_values CONFIG WEIGHTS IDS FOLDER: logits, loss and gradients of a language model with the weights of a folder,
// for the sequences in IDS (int64, one more token than the model's sequence each), as safetensors.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <fstream>
#include <map>
#include <string>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/linear/linear.h"
#include "modules/parameter_table.h"
#include "modules/rotary_tables.h"
#include "modules/transformer.h"
#include "tools/weights_writer.h"
#include "trainer/load_config.h"
#include "trainer/weights_folder.h"

namespace strata {
namespace {

using at::Tensor;

Tensor read_ids(const std::string& path, int64_t columns) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t rows = file.tellg() / static_cast<int64_t>(sizeof(int64_t)) / columns;
  const Tensor ids = at::empty({rows, columns}, at::kLong);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(ids.mutable_data_ptr<int64_t>()), static_cast<std::streamsize>(ids.nbytes()));
  return ids;
}

void write_values(const trainer::TrainerConfig& config, const std::string& weights_path, const std::string& ids_path,
                  const std::string& folder) {
  const auto& model_config = std::get<modules::TransformerConfig>(config.model.type);
  const trainer::WeightsFolder weights(weights_path);
  std::map<std::string, Tensor> parameters;
  for (const auto& group : modules::parameter_table(model_config)) {
    for (const auto& parameter : group.parameters) {
      parameters[parameter.name] =
          weights.read(parameter.name, 0, parameter.elements()).view(parameter.shape).set_requires_grad(true);
    }
  }
  const modules::Transformer model(model_config, config.kernels,
                                   [&](const std::string& name) { return parameters.at(name); });
  modules::StepContext context;
  if (model_config.family == modules::Family::llama) {
    const auto tables = modules::rotary_tables(model_config, model_config.sequence);
    context.rotary_cosine = tables.cosine;
    context.rotary_sine = tables.sine;
  }
  const Tensor ids = read_ids(ids_path, model_config.sequence + 1);
  const Tensor inputs = ids.narrow(1, 0, model_config.sequence).contiguous();
  const Tensor targets = ids.narrow(1, 1, model_config.sequence).reshape({-1});
  const auto level = kernels::Level::aten;
  const Tensor logits =
      kernels::linear(model(inputs, context), model.head_weight(), {}, kernels::Activation::none, level);
  const Tensor values = logits.detach().clone();
  const Tensor scale = at::full({}, 1.0 / static_cast<double>(targets.numel()), at::kFloat);
  const Tensor loss =
      kernels::cross_entropy(logits.view({-1, model_config.vocabulary}), targets, scale, -100, 0.0, level);
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
  strata::write_values(strata::trainer::load_trainer_config(arguments[1], {}).config, arguments[2], arguments[3],
                       arguments[4]);
  return 0;
}
