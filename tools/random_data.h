// SPDX-License-Identifier: MIT
// Random data for a model, in a folder of its own that is there as long as this is. What is in it does not matter to
// the time of a step; how large a graph is does.
#pragma once

#include "base/temporary_folder.h"
#include "modules/config/model_config.h"
#include "trainer/config/data_config.h"

namespace strata::tools {

class RandomData {
 public:
  // Enough for 256 samples; fewer of very large ones. A synthetic graph stays as it is; any other becomes one of 10,000
  // nodes, with as many sampled neighbors. Many graphs are read from their own folder.
  RandomData(const modules::ModelConfig& model, const trainer::DataConfig& data);

  const trainer::DataConfig& config() const { return config_; }

 private:
  TemporaryFolder folder_;
  trainer::DataConfig config_;
};

}  // namespace strata::tools
