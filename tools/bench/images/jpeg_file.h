// SPDX-License-Identifier: MIT
// Writes JPEG files with libjpeg-turbo from pixels that are produced row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::tools {

struct JpegKind {
  int across = 2, down = 2;  // luma samples per chroma sample
  bool gray = false, progressive = false;
  int restart_rows = 0;
  int quality = 90;
};

// Returns the bytes of the file. `fill` writes row y: width x RGB, or width gray values.
std::string jpeg_file(int64_t width, int64_t height, const JpegKind& kind,
                      const std::function<void(int64_t y, std::vector<uint8_t>& row)>& fill);

}  // namespace strata::tools
