// SPDX-License-Identifier: MIT
// IDX files for tests, in the test's own folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

// Returns the magic number for unsigned bytes, the sizes and the values, without any check.
std::string idx_bytes(const std::vector<uint32_t>& sizes, const std::vector<uint8_t>& values);
std::string gzipped(const std::string& bytes);

// Writes `count` images of size x size to NAME-images and NAME-labels, gzipped, and returns the path without these
// ends. Pixel i, counted over all images, is i * 7 modulo 256. Labels are i modulo `classes`.
std::string write_images(const std::string& name, uint32_t count, uint32_t size, uint32_t classes);

}  // namespace strata::trainer
