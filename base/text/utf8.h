// SPDX-License-Identifier: MIT
// Finds the characters of a text in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// True for a byte of a character other than its first.
inline bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Returns the number of bytes of the character at the start of a text that is not empty, or 0 if it is invalid.
// Overlong forms and surrogates are invalid too.
size_t utf8_bytes(std::string_view text);

}  // namespace strata
