// SPDX-License-Identifier: MIT
// Mends a mutated ZIP archive: size and checksum of each entry in its directory become those of what it holds.
#pragma once

#include <string>

namespace strata::fuzz {

std::string with_zip_checksums(std::string archive);

}  // namespace strata::fuzz
