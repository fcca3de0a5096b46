// SPDX-License-Identifier: MIT
#include "trainer/config/model_rules.h"

namespace strata::trainer {

std::array<std::pair<std::string, int64_t>, 2> limits_of(const EvaluationConfig& evaluation) {
  return {{{"evaluation.tokens", evaluation.tokens}, {"evaluation.final_tokens", evaluation.final_tokens}}};
}

void check_is_no_transformer(const TrainerConfig& config, configs::Checks& checks) {
  const std::string type = config.model.type_name();
  const int64_t sequence_ranks = config.sharding.sequence;
  if (checks.can_check({"sharding.sequence"}) && sequence_ranks != 1) {
    checks.fail("sharding.sequence", "expected 1, because only sequences of a transformer are split over ranks, got " +
                                         std::to_string(sequence_ranks) + " and a model of type " + type);
  }
  if (checks.can_check({"layers"}) && !config.layers.empty()) {
    checks.fail("layers", "expected none, because only a transformer attends by patterns, got a model of type " + type);
  }
}

void check_evaluates_all(const EvaluationConfig& evaluation, const std::string& items, configs::Checks& checks) {
  for (const auto& [key, tokens] : limits_of(evaluation)) {
    if (checks.can_check({key}) && tokens != 0) {
      checks.fail(
          key, "expected 0, because an evaluation visits all validation " + items + ", got " + std::to_string(tokens));
    }
  }
}

void check_has_no_fused_head(const modules::KernelsConfig& kernels, const std::string& reason,
                             configs::Checks& checks) {
  const std::string fused = "kernels.linear_cross_entropy";
  if (checks.can_check({fused}) && kernels.levels.linear_cross_entropy) {
    checks.fail(fused, "computes head and loss of language models together; expected none, because " + reason);
  }
}

}  // namespace strata::trainer
