// SPDX-License-Identifier: MIT
#include "configs/errors.h"
#include "trainer/task.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/language_modeling.h"

namespace strata::trainer {
namespace {

// One function for each pair of model and data that fit, see kFits.
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::TransformerConfig&, const TextDataConfig&) {
  return std::make_unique<LanguageModeling>(config);
}
std::unique_ptr<Task> task_for(const TrainerConfig& config, const modules::VisionTransformerConfig&,
                               const ImageMixingConfig&) {
  return std::make_unique<ImageClassification>(config);
}

}  // namespace

std::unique_ptr<Task> make_task(const TrainerConfig& config) {
  const auto make = [&]<class Model, class Data>(const Model& model, const Data& data) -> std::unique_ptr<Task> {
    if constexpr (kFits<Model, Data>) return task_for(config, model, data);
    throw Error(ExitCode::internal, "a configuration was not checked: no task is made of its model and data");
  };
  return std::visit(make, config.model.type, config.data.type);
}

}  // namespace strata::trainer
