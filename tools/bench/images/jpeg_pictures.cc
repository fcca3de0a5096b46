// SPDX-License-Identifier: MIT
#include "tools/bench/images/jpeg_pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/bench/images/jpeg_file.h"

// jpeglib.h must come after the headers that define FILE and size_t.
#include <jpeglib.h>

namespace strata::tools {
namespace {

// A pseudorandom number in [-1, 1) for each point of a grid.
double at_point(uint64_t seed, int64_t x, int64_t y) {
  uint64_t hash = seed ^ (static_cast<uint64_t>(x) * 0x9e3779b97f4a7c15u) ^ (static_cast<uint64_t>(y) << 32);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(hash >> 11) * 0x1p-52 - 1;
}

// Interpolates between the points of a grid with `distance` pixels between points.
double smooth(uint64_t seed, int64_t distance, int64_t x, int64_t y) {
  const int64_t left = x / distance, top = y / distance;
  const double right_share = static_cast<double>(x % distance) / static_cast<double>(distance);
  const double low_share = static_cast<double>(y % distance) / static_cast<double>(distance);
  const auto row = [&](int64_t line) {
    return std::lerp(at_point(seed, left, line), at_point(seed, left + 1, line), right_share);
  };
  return std::lerp(row(top), row(top + 1), low_share);
}

}  // namespace

std::string jpeg_picture(int64_t width, int64_t height, uint64_t seed) {
  return jpeg_file(width, height, {.quality = 92}, [&](int64_t y, std::vector<uint8_t>& row) {
    for (int64_t x = 0; x < width; ++x) {
      double brightness = 128;
      for (const int64_t distance : {128, 64, 32, 16, 8, 4, 2, 1}) {
        brightness += 18 * smooth(seed + static_cast<uint64_t>(distance), distance, x, y);
      }
      for (int64_t c = 0; c < 3; ++c) {
        const double color = 30 * smooth(seed + 1000 + static_cast<uint64_t>(c), 48, x, y);
        row[static_cast<size_t>(3 * x + c)] = static_cast<uint8_t>(std::clamp(brightness + color, 0.0, 255.0));
      }
    }
  });
}

void decode_with_libjpeg(const std::string& file, std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const size_t bytes = 3 * static_cast<size_t>(info.output_width);
  pixels.resize(bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace strata::tools
