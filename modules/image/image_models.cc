// SPDX-License-Identifier: MIT
#include <variant>

#include "base/errors.h"
#include "modules/image/image_model.h"
#include "modules/image/mixer.h"
#include "modules/image/vision_transformer.h"

namespace strata::modules {
namespace {

std::unique_ptr<ImageModel> make(const VisionTransformerConfig& config, const Scope& scope) {
  return std::make_unique<VisionTransformer>(config, scope);
}

std::unique_ptr<ImageModel> make(const MixerConfig& config, const Scope& scope) {
  return std::make_unique<Mixer>(config, scope);
}

}  // namespace

std::unique_ptr<ImageModel> make_image_model(const ModelConfig& model, const Scope& scope) {
  return std::visit(
      [&]<class Config>(const Config& config) -> std::unique_ptr<ImageModel> {
        if constexpr (TakesImages<Config>) return make(config, scope);
        throw Error(ExitCode::internal, "an image model is asked for, and the configuration has another one");
      },
      model.type);
}

}  // namespace strata::modules
