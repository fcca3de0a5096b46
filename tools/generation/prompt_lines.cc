// SPDX-License-Identifier: MIT
#include "tools/generation/prompt_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/json_count.h"
#include "base/text/printable.h"

namespace strata::generation {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestFile = 100'000'000;

struct Line {
  json value;
  std::string twice;  // a key that the object has twice; nlohmann-json keeps the last of two
};

Line parse(const std::string& text) {
  Line line;
  std::set<std::string> keys;
  const auto find_twice = [&](int depth, json::parse_event_t event, json& key) {
    const bool is_key = event == json::parse_event_t::key && depth == 1;
    if (is_key && !keys.insert(key.get<std::string>()).second) line.twice = key.get<std::string>();
    return true;
  };
  line.value = json::parse(text, find_twice, /*allow_exceptions=*/false);
  return line;
}

std::vector<int64_t> ids_of(const json& list, const std::string& place) {
  std::vector<int64_t> ids;
  for (const json& value : list) {
    const std::optional<int64_t> id = json_count(value);
    if (!id) {
      // dump() calls itself for each level of nesting.
      const std::string found = value.is_structured() ? value.type_name() : value.dump(-1, ' ', /*ensure_ascii=*/true);
      throw Error(ExitCode::data, place + "an id is " + found.substr(0, 100) + ", expected an integer from 0 on");
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

std::vector<PromptLine> read_prompt_lines(const std::string& path) {
  std::vector<PromptLine> prompts;
  std::istringstream file(read_text_file(path, kLargestFile));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto [value, twice] = parse(line);
    const std::string place = path + ":" + std::to_string(number) + ": ";
    const bool has_one_key = value.is_object() && value.size() == 1 && twice.empty();
    if (has_one_key && value.contains("text") && value["text"].is_string()) {
      PromptLine prompt{.is_text = true};
      for (const char letter : value["text"].get<std::string>()) {
        prompt.ids.push_back(static_cast<unsigned char>(letter));
      }
      prompts.push_back(std::move(prompt));
    } else if (has_one_key && value.contains("ids") && value["ids"].is_array()) {
      prompts.push_back({ids_of(value["ids"], place)});
    } else {
      throw Error(ExitCode::data, place + (twice.empty() ? "" : "has '" + printable_start(twice) + "' twice; ") +
                                      R"(expected a JSON object such as {"text": "Once"} or {"ids": [5, 6]})");
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
