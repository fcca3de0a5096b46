// SPDX-License-Identifier: MIT
// IDX files for tests, in the test's own folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

// Magic number for unsigned bytes, sizes, values; nothing is checked.
std::string idx_bytes(const std::vector<uint32_t>& sizes, const std::vector<uint8_t>& values);
std::string gzipped(const std::string& bytes);

// `count` images of size x size: pixel i of all of them is i * 7 modulo 256; their labels are i modulo `classes`.
// Writes NAME-images and NAME-labels, gzipped, and returns the path without its end.
std::string write_images(const std::string& name, uint32_t count, uint32_t size, uint32_t classes);

}  // namespace strata::trainer
