// SPDX-License-Identifier: MIT
// The word of an enumerator, as configurations and messages write it.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace strata {

// For enums whose namespace has a function names(Enum), which returns one name for each enumerator, in order.
template <class Enum>
requires std::is_enum_v<Enum> std::string word_of(Enum value) {
  return std::string(names(value)[static_cast<size_t>(value)]);
}

}  // namespace strata
