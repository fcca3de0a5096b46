// SPDX-License-Identifier: MIT
// Random data for a model, in a folder of its own that is there as long as this is. What is in it does not matter to
// the time of a step.
#pragma once

#include <filesystem>

#include "trainer/trainer_config.h"

namespace strata::tools {

class RandomData {
 public:
  // Enough for 256 samples; fewer of very large ones.
  explicit RandomData(const modules::ModelConfig& model);
  ~RandomData();
  RandomData(const RandomData&) = delete;
  RandomData& operator=(const RandomData&) = delete;

  const trainer::DataConfig& config() const { return config_; }

 private:
  std::filesystem::path folder_;
  trainer::DataConfig config_;
};

}  // namespace strata::tools
