// SPDX-License-Identifier: MIT
#include "trainer/data/text/token_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/errors.h"
#include "tests/trainer/data/token_files.h"

namespace strata::trainer {
namespace {

TEST(TokenFile, ReadsBothWidths) {
  for (const int width : {2, 4}) {
    const std::vector<uint32_t> ids =
        width == 2 ? std::vector<uint32_t>{0, 1, 65535, 7} : std::vector<uint32_t>{0, 1, 4000000000, 7};
    const TokenFile file(write_tokens(
        "good.bin", ids,
        {.magic = width == 2 ? 20240520 : 20240801, .version = width == 2 ? 1 : 7, .bytes_per_id = width}));
    EXPECT_EQ(file.tokens(), 4);
    EXPECT_EQ(file.bytes_per_id(), width);
    std::vector<int64_t> read(3);
    file.read(1, 3, read.data());
    EXPECT_EQ(read, (std::vector<int64_t>{ids[1], ids[2], ids[3]}));
  }
}

TEST(TokenFile, CanBeMoved) {
  TokenFile file(write_tokens("good.bin", {5, 6, 7}));
  const TokenFile moved(std::move(file));
  int64_t id = 0;
  moved.read(2, 1, &id);
  EXPECT_EQ(id, 7);
}

// A broken file, and a word that its message must contain.
struct Broken {
  std::string name, word;
  std::string (*write)();
};

class BrokenTokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTokenFile, IsRefusedByName) {
  const std::string path = GetParam().write();
  ::alarm(60);  // ends a test that waits for a writer of the pipe
  try {
    const TokenFile file(path);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    const std::string message = error.what();
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(GetParam().word), std::string::npos) << message;
  }
  ::alarm(0);
}

// Returns the path of a good file of ten tokens that was cut or extended to `bytes`.
std::string resized(int64_t bytes) {
  const std::string path = write_tokens("resized.bin", counting(10, 10));
  if (truncate(path.c_str(), bytes) != 0) throw std::runtime_error("truncate");
  return path;
}

const std::vector<Broken> kBroken = {
    {"missing", "cannot be opened", [] { return std::string("/nowhere/train.bin"); }},
    {"empty", "is empty", [] { return write_bytes("empty.bin", ""); }},
    {"one_byte", "less than the header", [] { return write_bytes("one.bin", "x"); }},
    {"header_cut", "less than the header", [] { return resized(1023); }},
    {"header_only", "truncated", [] { return resized(1024); }},
    {"one_byte_short", "truncated", [] { return resized(1024 + 19); }},
    {"one_token_short", "truncated", [] { return resized(1024 + 18); }},
    {"one_byte_long", "foreign", [] { return resized(1024 + 21); }},
    {"one_token_long", "foreign", [] { return resized(1024 + 22); }},
    {"twice_as_long", "foreign", [] { return resized(1024 + 40); }},
    {"no_tokens", "at least one", [] { return write_tokens("none.bin", {}); }},
    {"negative_count", "at least one", [] { return write_tokens("negative.bin", counting(10, 10), {.tokens = -2}); }},
    {"count_too_large", "truncated",
     [] { return write_tokens("large.bin", counting(10, 10), {.tokens = 2147483647}); }},
    {"text", "magic number", [] { return write_bytes("text.bin", std::string(2000, 'a')); }},
    {"headerless", "magic number", [] { return write_tokens("raw.bin", counting(1000, 10), {.header_bytes = 0}); }},
    {"evaluation_records", "magic number",
     [] { return write_tokens("eval.bin", counting(10, 10), {.magic = 20240522}); }},
    {"big_endian", "magic number", [] { return write_tokens("big.bin", counting(10, 10), {.magic = 0x08dc3401}); }},
    {"version_of_uint32", "version 7", [] { return write_tokens("v7.bin", counting(10, 10), {.version = 7}); }},
    {"version_of_uint16", "version 1",
     [] { return write_tokens("v1.bin", counting(10, 10), {.magic = 20240801, .bytes_per_id = 4}); }},
    {"uint32_called_uint16", "foreign", [] { return write_tokens("wide.bin", counting(10, 10), {.bytes_per_id = 4}); }},
    {"uint16_called_uint32", "truncated",
     [] { return write_tokens("narrow.bin", counting(10, 10), {.magic = 20240801, .version = 7}); }},
    {"folder", "regular file", [] { return std::string(std::getenv("TEST_TMPDIR")); }},
    {"device", "regular file", [] { return std::string("/dev/null"); }},
    {"pipe", "regular file",
     [] {
       const std::string path = testing::TempDir() + "/pipe.bin";
       std::remove(path.c_str());
       if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
       return path;
     }},
};

INSTANTIATE_TEST_SUITE_P(Kinds, BrokenTokenFile, testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

TEST(TokenFile, NamesAFileThatShrinksWhileInUse) {
  const std::string path = write_tokens("shrinks.bin", counting(1000, 10));
  const TokenFile file(path);
  ASSERT_EQ(truncate(path.c_str(), 1024 + 2 * 500 + 1), 0);
  std::vector<int64_t> ids(100);
  EXPECT_NO_THROW(file.read(400, 100, ids.data()));
  try {
    file.read(450, 51, ids.data());
    FAIL() << "read tokens that are not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_NE(std::string(error.what()).find("shrinks.bin: was cut while in use: it had 1000 tokens"),
              std::string::npos)
        << error.what();
  }
}

TEST(TokenFile, RefusesToReadOverItsEnd) {
  const TokenFile file(write_tokens("good.bin", {5, 6, 7}));
  std::vector<int64_t> ids(4);
  EXPECT_THROW(file.read(0, 4, ids.data()), Error);
  EXPECT_THROW(file.read(-1, 1, ids.data()), Error);
}

TEST(TokenFile, SaysWhatToDoAboutTooManyOpenFiles) {
  const std::string path = write_tokens("good.bin", {5, 6, 7});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string message;
  try {
    const TokenFile file(path);
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(message.find("Too many open files; every token file stays open: raise"), std::string::npos) << message;
}

TEST(TokenFile, ClosesWhatItRefuses) {
  const std::string path = write_bytes("foreign.bin", std::string(2000, 'a'));
  const int before = open("/dev/null", O_RDONLY);
  close(before);
  for (int i = 0; i < 10; ++i) EXPECT_THROW(TokenFile{path}, Error);
  const int after = open("/dev/null", O_RDONLY);
  close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace strata::trainer
