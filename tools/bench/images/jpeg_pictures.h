// SPDX-License-Identifier: MIT
// JPEG files for timing, and a decoder that uses libjpeg-turbo alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::tools {

// Returns a JPEG file with detail of every size, as in photographs: about 100 KB at 500 x 375 pixels, 4:2:0.
std::string jpeg_picture(int64_t width, int64_t height, uint64_t seed);

// Decodes the whole picture into `pixels`, RGB [height * width * 3], with libjpeg-turbo alone. The memory of `pixels`
// is reused.
void decode_with_libjpeg(const std::string& file, std::vector<uint8_t>& pixels);

}  // namespace strata::tools
