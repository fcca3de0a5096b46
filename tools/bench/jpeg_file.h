// SPDX-License-Identifier: MIT
// JPEG files of pixels that are made row by row, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::tools {

struct JpegKind {
  int across = 2, down = 2;  // samples of brightness for one of colour
  bool grey = false, progressive = false;
  int restart_rows = 0;
  int quality = 90;
};

// `fill` writes a row: width x RGB, or grey.
std::string jpeg_file(int64_t width, int64_t height, const JpegKind& kind,
                      const std::function<void(int64_t y, std::vector<uint8_t>& row)>& fill);

}  // namespace strata::tools
