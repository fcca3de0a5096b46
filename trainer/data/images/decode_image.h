// SPDX-License-Identifier: MIT
// Decodes a part of a JPEG or PNG file to 8-bit pixels. No data of the file are trusted.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::trainer {

// The problem with one image, without the name of its file. The run continues without the image.
class BadImage : public std::exception {
 public:
  explicit BadImage(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

// Returns the wanted part of an image of this size; it must lie inside the image.
using WantedBox = std::function<Box(int64_t height, int64_t width)>;

struct Pixels {
  int64_t height = 0, width = 0;  // size of the part
  std::vector<uint8_t> values;    // [height, width, channels]; may be larger than needed
};

// `name` is the name of the file, whose suffix must match its format. `channels` is 3 for RGB or 1 for gray (with the
// weights of ITU-R 601). Transparency is dropped, as in torchvision. Color profiles and the orientation in EXIF data
// are ignored. A part has the same pixels as in the whole image. Frequencies that no scan of a progressive JPEG sends
// are 0. libjpeg and PIL guess them from the blocks around.
//
// The memory of `pixels` is reused, because the kernel clears fresh memory page by page, which costs a tenth of a
// decoding. Throws BadImage for
//   files that end too early, wherever the part lies,
//   damage that the decoder notices (in a JPEG, only in the part and above it),
//   CMYK, more than 8 bits per channel, animations,
//   JPEGs of more than 500 scans, and those in several scans with more than 512 MiB of coefficients,
//   sides above 65,500 pixels, more than 178,956,970 pixels (PIL's limit for decompression bombs),
//   one side more than 200 times the other (resized by the shorter side, such an image would not fit into memory).
void decode_image(std::string_view file, std::string_view name, int64_t channels, const WantedBox& wanted,
                  Pixels& pixels);

}  // namespace strata::trainer
