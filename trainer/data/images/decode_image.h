// SPDX-License-Identifier: MIT
// A part of a JPEG or PNG file as pixels of 8 bits. Nothing in the file is trusted.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::trainer {

// What is wrong with one image, without the name of its file: the run goes on without it.
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

// Which part is wanted of an image of this size; it lies inside.
using WantedBox = std::function<Box(int64_t height, int64_t width)>;

struct Pixels {
  int64_t height = 0, width = 0;  // of the part
  std::vector<uint8_t> values;    // [height, width, channels], and whatever is left of larger images
};

// `name` is that of the file: its suffix must say what the file is. channels: 3 RGB, or 1 grey (as ITU-R 601 weighs
// red, green and blue). What is transparent loses its transparency, as in torchvision; the colour profile and the
// orientation that a camera notes are not looked at.
//
// The memory of `pixels` is used again: fresh memory, which the kernel clears page by page, costs a tenth of a
// decoding. Refused with BadImage: files that end too early, wherever the part lies; damage that the decoder notices,
// which of a JPEG decodes the part and what lies above it only; CMYK, more than 8 bits a channel, animations, sides
// above 65,500 pixels, more than 178,956,970 pixels (what PIL takes for a decompression bomb), and images that are more
// than 200 times as long as wide (which resized by their shorter side would not fit into memory).
void decode_image(std::string_view file, std::string_view name, int64_t channels, const WantedBox& wanted,
                  Pixels& pixels);

}  // namespace strata::trainer
