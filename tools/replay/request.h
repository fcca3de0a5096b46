// SPDX-License-Identifier: MIT
// The request for a replay, read from the arguments of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::tools {

struct Request {
  std::string run;              // the folder of a run, or of a layer that a replay has saved
  std::optional<int64_t> step;  // absent: the step is found in the ledger, or the folder is a layer
  std::optional<int64_t> from;  // absent: the nearest checkpoint before the step
  bool locate = false;
  bool finds_nonfinite = false;
  std::vector<std::string> overrides;

  // True if `run` is the folder of a saved layer.
  bool is_layer() const;
};

// Returns nothing if the program must end with `exit_code`: help was asked for, or the arguments are wrong.
std::optional<Request> parse_request(int count, char** arguments, int& exit_code);

}  // namespace strata::tools
