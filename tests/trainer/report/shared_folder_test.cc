// SPDX-License-Identifier: MIT
// Ranks that do not see one folder are refused together; each rank is given its own path here.
#include "trainer/report/shared_folder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "tests/trainer/checkpoint/virtual_ranks.h"
#include "tests/trainer/test_files.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPatience(300);

class SharedFolderTest : public testing::Test {
 protected:
  SharedFolderTest() {
    fs::create_directory(path("shared"));
    fs::create_directory(path("other"));
  }

  // Returns the message that all ranks get. Rank 0 is on host0, and so on.
  std::string refusal_for(const std::vector<std::string>& folders) {
    std::vector<std::string> messages(folders.size());
    run_ranks(static_cast<int>(folders.size()), [&](const Ranks& ranks) {
      const auto rank = static_cast<size_t>(ranks.rank);
      try {
        require_shared_folder(path(folders[rank]), "host" + std::to_string(rank), ranks, kPatience);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        messages[rank] = error.what();
        messages[rank].erase(0, messages[rank].find(": "));  // each rank names its own path here
      }
    });
    for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
    for (const char* folder : {"shared", "other"}) EXPECT_TRUE(fs::is_empty(path(folder))) << folder;
    return messages[0];
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  const TemporaryFolder folder_;
};

TEST_F(SharedFolderTest, OneFolderIsAccepted) {
  EXPECT_EQ(refusal_for({"shared"}), "");
  EXPECT_EQ(refusal_for({"shared", "shared", "shared"}), "");
}

TEST_F(SharedFolderTest, ARankThatSeesAnotherFolderIsNamedWithItsHost) {
  const std::string end =
      " not find the file that rank 0 on host host0 has just written there; expected one folder that all hosts share, "
      "such as one of a network file system";
  EXPECT_EQ(refusal_for({"shared", "shared", "other"}), ": rank 2 on host host2 does" + end);
  EXPECT_EQ(refusal_for({"shared", "missing", "other"}), ": rank 1 on host host1 and 1 more ranks do" + end);
}

TEST_F(SharedFolderTest, AFileThatAppearsLateIsFound) {
  fs::remove(path("other"));
  std::thread late([&] {
    std::this_thread::sleep_for(kPatience / 3);
    fs::create_directory_symlink(path("shared"), path("other"));
  });
  EXPECT_EQ(refusal_for({"shared", "other"}), "");
  late.join();
}

TEST_F(SharedFolderTest, WhatAKilledStartHasLeftIsRemoved) {
  std::ofstream(path("shared/.shared-1-2")) << "";
  EXPECT_EQ(refusal_for({"shared", "shared"}), "");
}

}  // namespace
}  // namespace strata::trainer
