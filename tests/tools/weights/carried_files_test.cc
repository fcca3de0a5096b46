// SPDX-License-Identifier: MIT
// Checks what an export takes from the config.json that an import kept beside the weights.
#include "tools/weights/carried_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/errors.h"
#include "base/files/temporary_folder.h"

namespace strata::tools {
namespace {

constexpr const char* kConfig = R"({"bos_token_id": 1, "width": 8})";

TEST(SpecialTokens, AreThoseOfTheImport) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/imported_config.json") << R"({"eos_token_id": [7, 9], "pad_token_id": null})";
  const auto expected = nlohmann::json::parse(R"({"width": 8, "eos_token_id": [7, 9], "pad_token_id": null})");
  EXPECT_EQ(nlohmann::json::parse(with_special_tokens(kConfig, folder.path())), expected);
  const TemporaryFolder empty;
  EXPECT_EQ(with_special_tokens(kConfig, empty.path()), kConfig);
}

// Code 3 is for wrong contents, and code 4 for what cannot be read (docs/weights.md).
TEST(SpecialTokens, OfADamagedImportAreRefused) {
  for (const char* text : {"", "{", "[]", "7", "{} {}", "\xff"}) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/imported_config.json";
    std::ofstream(path) << text;
    try {
      with_special_tokens(kConfig, folder.path());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << text;
      EXPECT_EQ(error.what(), path + ": not a JSON object; import the weights again");
    }
  }
}

TEST(SpecialTokens, OfATooLargeFileAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/imported_config.json";
  std::ofstream(path) << "{}";
  std::filesystem::resize_file(path, 100'000'001);
  EXPECT_THROW(with_special_tokens(kConfig, folder.path()), Error);
}

}  // namespace
}  // namespace strata::tools
