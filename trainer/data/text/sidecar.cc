// SPDX-License-Identifier: MIT
#include "trainer/data/text/sidecar.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/printable.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;  // it names the files of the text, of which a command line has at most 2 MB

// The whole numbers in the outermost object, by their keys; nothing for other values, except the name of the tokenizer.
// nlohmann-json's own objects keep the last of two equal keys, and convert -1 to 2^64 - 1 and 1.5 to 1.
struct Numbers : nlohmann::json_sax<nlohmann::json> {
  std::map<std::string, std::optional<uint64_t>> values;
  std::string name, twice, tokenizer;
  int depth = 0;

  bool enter() {
    ++depth;
    return true;
  }
  bool leave() {
    --depth;
    return true;
  }
  bool key(std::string& text) override {
    if (depth != 1) return true;
    name = text;
    const bool is_new = values.emplace(name, std::nullopt).second;
    if (!is_new) twice = name;
    return is_new;
  }
  bool number_unsigned(uint64_t number) override {
    if (depth == 1) values[name] = number;
    return true;
  }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string& text) override {
    if (depth == 1 && name == "tokenizer") tokenizer = text;
    return true;
  }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
};

// Returns the text of the sidecar, or nothing if there is none. Links are followed, as those to token files are.
std::optional<std::string> read_sidecar_text(const std::string& path) {
  std::error_code problem;
  const std::string target = std::filesystem::canonical(path, problem);
  if (problem == std::errc::no_such_file_or_directory || problem == std::errc::filename_too_long) return {};
  if (problem) refuse_file(path, "cannot be opened: " + problem.message());
  try {
    return read_text_file(target, kMostBytes);
  } catch (const Error& error) {
    throw Error(ExitCode::data, error.what());
  }
}

}  // namespace

std::optional<Sidecar> read_sidecar(const TokenFile& file) {
  const std::string path = file.path() + ".json";
  const std::optional<std::string> text = read_sidecar_text(path);
  if (!text) return {};
  Numbers numbers;
  const bool is_json = nlohmann::json::sax_parse(*text, &numbers);
  const std::optional<uint64_t> bytes = numbers.values["bytes"], tokens = numbers.values["tokens"];
  if (!is_json || !tokens || bytes.value_or(0) == 0) {
    refuse_file(
        path,
        (numbers.twice.empty() ? "" : "has '" + printable_start(numbers.twice) + "' twice; ") +
            "expected a JSON object with the whole numbers `bytes`, at least 1, and `tokens`, each once; write it "
            "again with tools/strata prepare text, or remove it to train without bits_per_byte");
  }
  if (*tokens != static_cast<uint64_t>(file.tokens())) {
    refuse_file(path, "speaks of " + std::to_string(*tokens) + " tokens, but " + file.path() + " has " +
                          std::to_string(file.tokens()) + ": they do not belong together");
  }
  return Sidecar{*bytes, numbers.values["vocabulary"], numbers.values["largest_token"]};
}

bool tokens_are_bytes(const std::string& token_file) {
  const std::optional<std::string> text = read_sidecar_text(token_file + ".json");
  Numbers found;
  return text && nlohmann::json::sax_parse(*text, &found) && found.tokenizer == "bytes";
}

}  // namespace strata::trainer
