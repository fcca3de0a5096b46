// SPDX-License-Identifier: MIT
// Lets libjpeg skip other rows than it was asked to. No file is known that makes it do so.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/bench/images/jpeg_file.h"
#include "trainer/data/images/decode_image.h"

// jpeglib.h must come after the headers that define FILE and size_t.
#include <jpeglib.h>

namespace {

int too_many = 0;  // rows that are skipped beyond what is asked, or fewer if negative

}  // namespace

extern "C" JDIMENSION __real_jpeg_skip_scanlines(j_decompress_ptr info, JDIMENSION rows);
extern "C" JDIMENSION __wrap_jpeg_skip_scanlines(j_decompress_ptr info, JDIMENSION rows) {
  __real_jpeg_skip_scanlines(info, rows + static_cast<JDIMENSION>(too_many));
  return rows;
}

namespace strata::trainer {
namespace {

// Returns why rows 20 to 40 are refused, or how many of them are there.
std::string outcome() {
  const std::string file = tools::jpeg_file(64, 64, {}, [](int64_t y, std::vector<uint8_t>& row) {
    for (uint8_t& value : row) value = static_cast<uint8_t>(3 * y);
  });
  Pixels pixels;
  try {
    decode_image(
        file, "a.jpg", 3,
        [](int64_t, int64_t width) {
          return Box{20, 0, 20, width};
        },
        pixels);
  } catch (const BadImage& problem) {
    return problem.what();
  }
  return std::to_string(pixels.height) + " rows";
}

TEST(DecodeImage, RowsThatWereNotSkippedAreNotWrittenBeforeTheBuffer) {
  EXPECT_EQ(outcome(), "20 rows");
  for (const int rows : {-20, -1, 1, 30}) {
    too_many = rows;
    EXPECT_EQ(outcome(), "damaged JPEG: its rows cannot be decoded from row 20 on") << rows;
  }
}

}  // namespace
}  // namespace strata::trainer
