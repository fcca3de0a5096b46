// SPDX-License-Identifier: MIT
#include "trainer/report/kept_tokenizer.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/errors.h"
#include "base/files/file_io.h"

namespace strata::trainer {

void keep_tokenizer(const std::string& token_files, const RunFolder& folder, bool replace,
                    const std::function<bool()>& tokens_are_bytes) {
  constexpr const char* kName = "tokenizer.json";
  constexpr uint64_t kMostBytes = 100'000'000;  // files of large vocabularies have some tens of MB
  const std::string kept = folder.path(kName);
  const bool is_kept = std::filesystem::exists(kept);
  if (is_kept && !replace) return;
  const auto set_aside = [&] {
    if (!is_kept) return;
    rename_path(kept, kept + ".old");
    std::printf("%s is not of these data, and is now %s.old\n", kName, kName);
  };
  const std::filesystem::path path = std::filesystem::path(token_files).parent_path() / kName;
  std::error_code ignored;  // the reader of the data reports a folder that cannot be read
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    return set_aside();
  }
  if (tokens_are_bytes()) {
    std::printf("%s is not of these data, whose tokens are bytes, and is not kept\n", path.c_str());
    return set_aside();
  }
  const std::string text = read_text_file(path, kMostBytes);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{' || !nlohmann::json::accept(text)) {
    throw Error(ExitCode::data, path.string() +
                                    ": expected a JSON object, as a tokenizer has it; without this file, "
                                    "the run trains and keeps no tokenizer");
  }
  const bool is_file = std::filesystem::is_regular_file(std::filesystem::symlink_status(kept));
  if (is_file && read_text_file(kept, kMostBytes) == text) return;
  set_aside();
  folder.write(kName, text);
}

}  // namespace strata::trainer
