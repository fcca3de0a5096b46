// SPDX-License-Identifier: MIT
#include "tools/generation/prompt_lines.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::generation {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestFile = 100'000'000;

bool is_list_of_ids(const json& value) {
  if (!value.is_array()) return false;
  for (const json& id : value) {
    if (!id.is_number_integer()) return false;
  }
  return true;
}

}  // namespace

std::vector<PromptLine> read_prompt_lines(const std::string& path) {
  std::vector<PromptLine> prompts;
  std::istringstream file(read_text_file(path, kLargestFile));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool has_one_key = value.is_object() && value.size() == 1;
    if (has_one_key && value.contains("text") && value["text"].is_string()) {
      PromptLine prompt{.is_text = true};
      for (const char letter : value["text"].get<std::string>()) {
        prompt.ids.push_back(static_cast<unsigned char>(letter));
      }
      prompts.push_back(std::move(prompt));
    } else if (has_one_key && value.contains("ids") && is_list_of_ids(value["ids"])) {
      prompts.push_back({value["ids"].get<std::vector<int64_t>>()});
    } else {
      throw Error(ExitCode::data, path + ":" + std::to_string(number) +
                                      R"(: expected a JSON object such as {"text": "Once"} or {"ids": [5, 6]})");
    }
  }
  if (prompts.empty()) throw Error(ExitCode::data, path + ": there is no prompt in it");
  return prompts;
}

std::string to_line(const PromptLine& prompt) {
  if (!prompt.is_text) return json{{"ids", prompt.ids}}.dump();
  std::string text;
  for (const int64_t id : prompt.ids) text += static_cast<char>(id);
  return json{{"text", text}}.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace strata::generation
