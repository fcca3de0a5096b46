// SPDX-License-Identifier: MIT
// Replaces control characters by '?', because names from files of others must not steer a terminal.
#pragma once

#include <string>

namespace strata {

std::string printable(std::string text);

}  // namespace strata
