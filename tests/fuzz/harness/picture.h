// SPDX-License-Identifier: MIT
// The common part of the targets for JPEG and PNG files. The first four bytes of an input choose a box.
#pragma once

#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "tests/fuzz/harness/target.h"
#include "trainer/data/images/decode_image.h"

namespace strata::fuzz {

constexpr size_t kChoiceBytes = 4;

// The largest image that is decoded has 512 MiB of pixels, and as many of coefficients.
constexpr size_t kPictureMebibytes = 768;

// Returns a box inside the image. Each byte is a share of the side or of what is left of it.
inline trainer::Box chosen_box(std::string_view choice, int64_t height, int64_t width) {
  const auto share = [&](size_t i, int64_t of) { return static_cast<unsigned char>(choice[i]) * of / 256; };
  const int64_t top = share(0, height), left = share(1, width);
  return {top, left, 1 + share(2, height - top), 1 + share(3, width - left)};
}

// Decodes the box, and the whole image if it is small: the box has the same pixels in both.
inline void parse_picture(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kChoiceBytes) throw Error(ExitCode::data, name + ": no choice of a box");
  const std::string_view choice = bytes.substr(0, kChoiceBytes), file = bytes.substr(kChoiceBytes);
  constexpr int64_t kSmall = 1 << 16;  // pixels
  trainer::Pixels part, whole;
  trainer::Box box;
  int64_t pixels = 0;
  const std::clock_t begin = std::clock();
  try {
    trainer::decode_image(
        file, name, 3,
        [&](int64_t height, int64_t width) {
          pixels = height * width;
          return box = chosen_box(choice, height, width);
        },
        part);
  } catch (const trainer::BadImage& bad) {
    throw Error(ExitCode::data, name + ": " + bad.what());
  }
  // An image that is not decoded in full costs nothing for its pixels; twenty times a Mpixel/s for the sanitizers.
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  require(seconds < 1 + 20e-6 * static_cast<double>(pixels), "more than 1 s, or 20 s a megapixel");
  require(part.height == box.height && part.width == box.width, "another size than the box");
  if (pixels > kSmall) return;
  try {
    trainer::decode_image(
        file, name, 3,
        [](int64_t height, int64_t width) {
          return trainer::Box{0, 0, height, width};
        },
        whole);
  } catch (const trainer::BadImage&) {
    return;  // damaged below the box
  }
  const auto row_bytes = static_cast<size_t>(3 * box.width);
  for (int64_t row = 0; row < box.height; ++row) {
    const uint8_t* whole_row = whole.values.data() + 3 * ((box.top + row) * whole.width + box.left);
    const uint8_t* part_row = part.values.data() + 3 * row * box.width;
    require(std::memcmp(whole_row, part_row, row_bytes) == 0, "the pixels of a box are not those of the whole image");
  }
}

}  // namespace strata::fuzz
