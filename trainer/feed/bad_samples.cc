// SPDX-License-Identifier: MIT
#include "trainer/feed/bad_samples.h"

#include <optional>
#include <sstream>

#include "base/errors.h"

namespace strata::trainer {

void BadSamples::report_new(const std::function<void(const std::string& line)>& tell) {
  const auto limit = task_ != nullptr ? task_->bad_sample_limit() : std::nullopt;
  if (!limit) return;
  std::string found;
  for (const std::string& line : task_->take_bad_samples()) found += line + '\n';
  for (const std::string& rank_text : gather_(found)) {
    std::istringstream lines(rank_text);
    for (std::string line; std::getline(lines, line);) {
      // Another rank may have reported the same sample in another epoch.
      if (told_.insert(line).second) tell(line);
    }
  }
  const auto count = static_cast<int64_t>(told_.size());
  if (count <= limit->most) return;
  throw Error(ExitCode::data, std::to_string(count) + (count == 1 ? " sample" : " samples") +
                                  " cannot be used, more than " + limit->rule +
                                  "; each is named in metrics.jsonl, one is " + *told_.begin());
}

}  // namespace strata::trainer
