// SPDX-License-Identifier: MIT
#include "modules/config/divisors.h"

namespace strata::modules {
namespace {

// Returns the nearest numbers that divide `whole`: the next one below `part` and the next one above it.
std::string divisors_near(int64_t whole, int64_t part) {
  std::string text;
  for (int64_t below = part; below >= 1; --below) {
    if (whole % below == 0) {
      text = std::to_string(below);
      break;
    }
  }
  for (int64_t above = part + 1; above <= whole; ++above) {
    if (whole % above == 0) return text.empty() ? std::to_string(above) : text + " and " + std::to_string(above);
  }
  return text;
}

}  // namespace

std::string not_divided(const std::string& whole_name, int64_t whole, const std::string& part_name, int64_t part) {
  return whole_name + " " + std::to_string(whole) + " is not a multiple of " + part_name + " " + std::to_string(part) +
         "; the nearest that divide it are " + divisors_near(whole, part);
}

}  // namespace strata::modules
