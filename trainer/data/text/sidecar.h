// SPDX-License-Identifier: MIT
// The file FILE.json beside a token file, in which `strata prepare text` says what the tokens were made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/data/text/token_file.h"

namespace strata::trainer {

struct Sidecar {
  uint64_t bytes = 0;  // bytes of text, at least 1
  // Size of the tokenizer's vocabulary, which may have tokens that the text has not.
  std::optional<uint64_t> vocabulary = {};
  std::optional<uint64_t> largest_token = {};  // in the token file; nothing in files of before 2026-11-23
};

// Returns nothing if the file has no sidecar. Throws Error (data) if the sidecar cannot be read or describes another
// file.
std::optional<Sidecar> read_sidecar(const TokenFile& file);

// True if the sidecar of this token file says that its tokens are bytes, for which there is no tokenizer.
bool tokens_are_bytes(const std::string& token_file);

}  // namespace strata::trainer
