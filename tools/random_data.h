// SPDX-License-Identifier: MIT
// Random data for a model, in a folder that exists as long as this object. Their values do not change the time of a
// step, but the size of a graph does.
#pragma once

#include <cstdint>

#include "base/files/temporary_folder.h"
#include "modules/config/model_config.h"
#include "trainer/config/data_config.h"

namespace strata::tools {

class RandomData {
 public:
  // Makes data for 256 samples, fewer if samples are very large. Documents of text have 1 to 2 n - 1 tokens, so n on
  // average: `document_tokens`, or if it is 0 half of a sample. A synthetic graph stays as it is. Another single graph
  // becomes one of 10,000 nodes with the same sampling of neighbors. Data sets of many graphs are read from their own
  // folder.
  RandomData(const modules::ModelConfig& model, const trainer::DataConfig& data, int64_t document_tokens = 0);

  const trainer::DataConfig& config() const { return config_; }

 private:
  TemporaryFolder folder_;
  trainer::DataConfig config_;
};

}  // namespace strata::tools
