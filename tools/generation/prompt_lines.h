// SPDX-License-Identifier: MIT
// Files of prompts and of results: lines of JSON, as in {"text": "In the beginning"} or {"ids": [5, 6]}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::generation {

struct PromptLine {
  std::vector<int64_t> ids = {};  // ids of tokens; of a text, its bytes
  bool is_text = false;
};

// Blank lines are left out. Throws an Error with ExitCode::data that names the line.
std::vector<PromptLine> read_prompt_lines(const std::string& path);

// Returns one line. Bytes of a text that are no UTF-8 become U+FFFD.
std::string to_line(const PromptLine& prompt);

}  // namespace strata::generation
