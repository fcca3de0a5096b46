// SPDX-License-Identifier: MIT
// JPEG files to time decoding with, and the decoding that nothing of ours is part of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::tools {

// A picture with detail of every size, as photographs have: at 500 x 375 pixels about 100 KB, 4:2:0.
std::string jpeg_picture(int64_t width, int64_t height, uint64_t seed);

// pixels <- all of them as RGB, by libjpeg-turbo alone; their memory is used again.
void decode_with_libjpeg(const std::string& file, std::vector<uint8_t>& pixels);

}  // namespace strata::tools
