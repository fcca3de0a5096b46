// SPDX-License-Identifier: MIT
#include "trainer/task.h"
#include "trainer/tasks/language_modeling.h"

namespace strata::trainer {

std::unique_ptr<Task> make_task(const TrainerConfig& config) { return std::make_unique<LanguageModeling>(config); }

}  // namespace strata::trainer
