// SPDX-License-Identifier: MIT
#include "base/files/file_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/errors.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  const std::string path = testing::TempDir() + "file_io_" + std::to_string(::getpid());
};

TEST(ReplaceFile, WritesANewOneAndReplacesAnOldOne) {
  const Folder folder;
  for (const char* text : {"old", "a longer new one", ""}) {
    replace_file(folder / "file", text);
    EXPECT_EQ(read_text_file(folder / "file", 100), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(ReplaceFile, ReplacesALinkAndNotItsTarget) {
  const Folder folder;
  replace_file(folder / "target", "target");
  fs::create_symlink("target", folder / "link");
  replace_file(folder / "link", "new");
  EXPECT_EQ(read_text_file(folder / "target", 100), "target");
  EXPECT_EQ(read_text_file(folder / "link", 100), "new");
}

TEST(ReplaceFile, RefusesPipesDevicesAndLinksToThem) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link_to_pipe");
  fs::create_symlink("/dev/null", folder / "link_to_device");  // it is not replaced if this test fails as root
  for (const char* name : {"pipe", "link_to_pipe", "link_to_device"}) {
    try {
      replace_file(folder / name, "text");
      ADD_FAILURE() << name << " was replaced";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::storage);
      EXPECT_NE(std::string(error.what()).find("it is a device or a pipe"), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

}  // namespace
}  // namespace strata
