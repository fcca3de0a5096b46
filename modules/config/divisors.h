// SPDX-License-Identifier: MIT
// Writes the error message for a number that does not divide another one, with the nearest numbers that do.
#pragma once

#include <cstdint>
#include <string>

namespace strata::modules {

// Example: "width 64 is not a multiple of heads 5; the nearest that divide it are 4 and 8".
std::string not_divided(const std::string& whole_name, int64_t whole, const std::string& part_name, int64_t part);

}  // namespace strata::modules
