// SPDX-License-Identifier: MIT
// Rules between a model and the rest of a run. The rules of transformers are in trainer_config.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "configs/checks.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// In graph_rules.cc.
void check_model(const TrainerConfig& config, const modules::GraphNetworkConfig& model, configs::Checks& checks);
// Of a model that takes images of these sizes, in image_rules.cc.
void check_image_model(const TrainerConfig& config, const modules::ImageSizes& sizes, configs::Checks& checks);

// The keys that limit an evaluation, and their values.
std::array<std::pair<std::string, int64_t>, 2> limits_of(const EvaluationConfig& evaluation);

// Reports keys that only transformers have: ranks that share a sequence, and layers with patterns of their own.
void check_is_no_transformer(const TrainerConfig& config, configs::Checks& checks);
// Reports limits of an evaluation that visits all validation `items`, such as images.
void check_evaluates_all(const EvaluationConfig& evaluation, const std::string& items, configs::Checks& checks);
// Reports kernels.linear_cross_entropy. `reason` ends the message: why that op cannot compute the head of the model.
void check_has_no_fused_head(const modules::KernelsConfig& kernels, const std::string& reason, configs::Checks& checks);

}  // namespace strata::trainer
