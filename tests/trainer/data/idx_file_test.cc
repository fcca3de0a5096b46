// SPDX-License-Identifier: MIT
#include "trainer/data/images/idx_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <regex>

#include "base/errors.h"
#include "tests/trainer/data/idx_files.h"
#include "tests/trainer/data/token_files.h"

namespace strata::trainer {
namespace {

std::vector<uint8_t> counting(size_t count) {
  std::vector<uint8_t> values(count);
  std::iota(values.begin(), values.end(), uint8_t{0});
  return values;
}

std::string good() { return idx_bytes({5, 3, 4}, counting(60)); }

TEST(IdxFile, IsReadGzippedAndPlain) {
  for (const std::string& bytes : {good(), gzipped(good())}) {
    const IdxArray array = read_idx(write_bytes("good", bytes), 3, 4);
    EXPECT_EQ(array.sizes, (std::vector<int64_t>{5, 3, 4}));
    EXPECT_EQ(array.values, counting(60));
  }
  EXPECT_EQ(read_idx(write_bytes("labels", idx_bytes({3}, {2, 1, 0})), 1, 1).values, (std::vector<uint8_t>{2, 1, 0}));
}

struct Broken {
  std::string name, bytes, words;  // words: a regular expression for the reason
};

class BrokenIdxFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenIdxFile, IsRefusedWithItsNameAndTheReason) {
  const std::string path = write_bytes("broken", GetParam().bytes);
  try {
    read_idx(path, 3, 4);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    EXPECT_TRUE(std::regex_search(message, std::regex(GetParam().words))) << message;
  }
}

std::string flipped(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenIdxFile,
    testing::Values(
        Broken{"empty", "", "is empty"}, Broken{"text", "label,pixel\n1,2\n", "magic number"},
        Broken{"one_byte", std::string(1, '\0'), "magic number"},
        Broken{"floats", flipped(good(), 2).replace(2, 1, "\x0d"), "type 13; expected 8"},
        Broken{"labels_for_images", idx_bytes({60}, counting(60)),
               "1 dimensions; expected 3, images x height x width, or 4"},
        Broken{"five_dimensions", idx_bytes({1, 1, 1, 5, 12}, counting(60)), "5 dimensions; expected 3"},
        Broken{"ends_in_header", idx_bytes({1, 3, 4}, counting(12)).substr(0, 14), "truncated: it ends in its header"},
        Broken{"ends_early", good().substr(0, good().size() - 1), "truncated.*ask for 60 values, and it has 59"},
        Broken{"gzip_ends_early", gzipped(good()).substr(0, gzipped(good()).size() - 12), "truncated"},
        Broken{"gzip_without_checksum", gzipped(good()).substr(0, gzipped(good()).size() - 8), "truncated"},
        Broken{"gzip_of_a_truncated_file", gzipped(good().substr(0, 70)), "truncated"},
        Broken{"wrong_checksum", flipped(gzipped(good()), gzipped(good()).size() - 6), "damaged.*gzip"},
        Broken{"damaged_stream", flipped(gzipped(good()), 14), "damaged|truncated|magic|type|dimensions|sizes"},
        Broken{"more_than_it_says", good() + "x", "goes on after its 5 x 3 x 4 values"},
        Broken{"no_images", idx_bytes({0, 3, 4}, {}), "holds nothing"},
        Broken{"no_pixels", idx_bytes({5, 0, 4}, {}), "holds nothing"},
        Broken{"sizes_too_large", idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, counting(60)), "more than a file"},
        // 2^22 * 2^21 * 2^21 overflows to 0 in 64 bits.
        Broken{"product_overflows", idx_bytes({1 << 22, 1 << 21, 1 << 21}, counting(60)), "more than a file"},
        Broken{"lying_size_of_a_plain_file", idx_bytes({500, 3, 4}, counting(60)), "more than a file of 76 bytes"},
        Broken{"bomb", gzipped(idx_bytes({1000000, 1000, 1000}, counting(60))), "more than a file"},
        Broken{"bomb_of_80_megabytes", gzipped(idx_bytes({80, 1024, 1024}, std::vector<uint8_t>(80 << 20))),
               "more than 67108864 \\(the larger of 64 MiB and 100 to 1\\): a compression bomb"},
        Broken{"lying_size", gzipped(idx_bytes({500, 3, 4}, counting(60))), "truncated.*6000 values, and it has 60"}),
    [](const auto& test) { return test.param.name; });

TEST(IdxFile, ThatIsNotThereOrNoFile) {
  const std::string pipe = testing::TempDir() + "/pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ::alarm(60);  // ends a test that waits for a writer of the pipe
  for (const std::string& path : {std::string("no-such-file"), std::string("/"), pipe}) {
    try {
      read_idx(path, 3, 4);
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_TRUE(std::regex_search(error.what(), std::regex("cannot be opened|not a regular file"))) << error.what();
    }
  }
  ::alarm(0);
}

// Flips each bit of the gzipped file. The file is read as it was or refused, never as other values. Some bits of the
// gzip header, such as its time, do not affect the content.
TEST(IdxFile, WithAnyOneBitFlippedIsNeverReadAsSomethingElse) {
  const std::string bytes = gzipped(good());
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      EXPECT_EQ(read_idx(write_bytes("flipped", damaged), 3, 4).values, counting(60)) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 8 * (bytes.size() - 10) - 8);
}

}  // namespace
}  // namespace strata::trainer
