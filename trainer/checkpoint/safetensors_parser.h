// SPDX-License-Identifier: MIT
// Parses the header of a safetensors file. Headers may be hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {

// Checks the header against the number of bytes after it: known dtypes, no duplicate names, shapes that match their
// bytes, and no gaps or overlaps. `path` is used in the error, Error(malformed).
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& path,
                                           ExitCode malformed = ExitCode::storage);

}  // namespace strata::trainer
