// SPDX-License-Identifier: MIT
// Fuzzes tar archives in the WebDataset layout: what an accepted archive holds is no more than the archive.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/images/web_dataset.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.tar";
constexpr size_t kBlock = 512, kChecksumAt = 148, kChecksumBytes = 8, kMagicAt = 257;

void parse(std::string_view bytes) {
  const trainer::WebDataset archive(write_input(kFile, bytes), /*classes=*/1000, /*shuffle=*/2);
  std::vector<int64_t> images(static_cast<size_t>(archive.count()));
  std::iota(images.begin(), images.end(), 0);
  archive.fetch(images);
  size_t read = 0;
  for (const int64_t image : images) {
    read += archive.read(image).size();
    require(archive.label(image) >= 0 && archive.label(image) < 1000, "a label outside of the classes");
  }
  require(read <= bytes.size(), "the files of an archive are larger than the archive");
}

// Every block with the magic word of a header gets the right checksum.
std::string mended(std::string bytes) {
  for (size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    if (bytes.compare(at + kMagicAt, 5, "ustar") != 0) continue;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + kChecksumAt), kChecksumBytes, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[at + i]);
    char digits[kChecksumBytes];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::copy_n(digits, 7, bytes.begin() + static_cast<std::ptrdiff_t>(at + kChecksumAt));
  }
  return bytes;
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse, .mend = mended};

}  // namespace strata::fuzz
