// SPDX-License-Identifier: MIT
// Good and broken token files for tests, in the test's own folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer {

struct TokenFileParts {
  int32_t magic = 20240520, version = 1, tokens = -1;  // tokens -1: the number of ids
  int bytes_per_id = 2;
  int64_t header_bytes = 1024;
};

// Writes `name` into the test's folder and returns its path.
std::string write_bytes(const std::string& name, const std::string& bytes);
std::string write_tokens(const std::string& name, const std::vector<uint32_t>& ids, TokenFileParts parts = {});

// Writes the file of document ends of the token file `name`. `header` begins it; empty: that of good ends.
std::string write_document_ends(const std::string& name, const std::vector<int32_t>& ends,
                                std::vector<int32_t> header = {});

// Returns 0, 1, 2, ... modulo `vocabulary`.
std::vector<uint32_t> counting(int64_t count, int64_t vocabulary);

// Writes i^2 + 7 i modulo `vocabulary` into a file for this process alone, for tests of several ranks. Returns its
// path.
std::string write_own_tokens(int64_t count, int64_t vocabulary);

}  // namespace strata::trainer
