// SPDX-License-Identifier: MIT
#include "tools/weights/carried_files.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 8> kFiles = {"generation_config.json",
                                               "tokenizer.json",
                                               "tokenizer_config.json",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "vocab.json",
                                               "merges.txt",
                                               "chat_template.jinja"};
constexpr const char* kImportedConfig = "imported_config.json";
constexpr std::array<const char*, 3> kSpecialTokens = {"bos_token_id", "eos_token_id", "pad_token_id"};
constexpr uint64_t kLargestFile = 100'000'000;  // a tokenizer with 260,000 words has 33 MB

// Exports are published, and a link in a folder of somebody else may lead to any file of this user. So no link is
// followed, and what ends in .json must be a JSON object.
void copy(const std::string& from, const std::string& to) {
  if (!fs::is_regular_file(fs::symlink_status(from))) return;
  const std::string text = read_text_file(from, kLargestFile);
  const bool is_json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).is_object();
  if (is_json || !from.ends_with(".json")) replace_file(to, text);
}

bool is_special_token(const nlohmann::json& value) {
  if (!value.is_array()) return value.is_number_integer();
  for (const nlohmann::json& one : value) {
    if (!one.is_number_integer()) return false;
  }
  return !value.empty();
}

}  // namespace

void keep_carried_files(const std::string& hf_folder, const std::string& weights) {
  for (const std::string name : kFiles) copy(hf_folder + "/" + name, weights + "/" + name);
  copy(hf_folder + "/config.json", weights + "/" + kImportedConfig);
}

void add_carried_files(const std::string& weights, const std::string& exported) {
  for (const std::string name : kFiles) {
    if (!fs::exists(exported + "/" + name)) copy(weights + "/" + name, exported + "/" + name);
  }
}

std::string with_special_tokens(const std::string& config, const std::string& weights) {
  const std::string path = weights + "/" + kImportedConfig;
  if (!fs::is_regular_file(path)) return config;
  const auto imported = nlohmann::json::parse(read_text_file(path, kLargestFile), nullptr, /*allow_exceptions=*/false);
  if (!imported.is_object()) throw Error(ExitCode::data, path + ": not a JSON object; import the weights again");
  auto json = nlohmann::ordered_json::parse(config);
  for (const char* key : kSpecialTokens) {
    json.erase(key);
    const bool is_known = imported.contains(key) && (imported[key].is_null() || is_special_token(imported[key]));
    if (is_known) json[key] = imported[key];
  }
  return json.dump(2) + "\n";
}

}  // namespace strata::tools
