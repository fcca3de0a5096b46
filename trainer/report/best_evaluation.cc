// SPDX-License-Identifier: MIT
#include "trainer/report/best_evaluation.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace strata::trainer {

BestEvaluation::BestEvaluation(const std::string& metrics_file) {
  std::ifstream file(metrics_file);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"test_accuracy\"") == std::string::npos) continue;
    const auto json = nlohmann::json::parse(line, /*callback=*/nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    Scalars values;
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) values.emplace_back(name, value.get<double>());
    }
    add(json["step"].get<int64_t>(), values);
  }
}

void BestEvaluation::add(int64_t step, const Scalars& values) {
  const auto find = [&](const char* name) {
    return std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
  };
  const auto validation = find("validation_accuracy"), test = find("test_accuracy");
  if (validation == values.end() || test == values.end()) return;
  if (step_ >= 0 && validation->second <= validation_accuracy_) return;
  step_ = step, validation_accuracy_ = validation->second, test_accuracy_ = test->second;
}

Scalars BestEvaluation::values() const {
  if (step_ < 0) return {};
  return {{"best_step", static_cast<double>(step_)},
          {"best_validation_accuracy", validation_accuracy_},
          {"test_accuracy_of_best", test_accuracy_}};
}

}  // namespace strata::trainer
