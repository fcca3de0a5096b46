// SPDX-License-Identifier: MIT
// Fuzzes the document ends of a token file with 20 tokens: those that are accepted ascend to the number of tokens.
#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/text/document_ends.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "tokens.bin";
constexpr size_t kHeaderBytes = 1024, kCountAt = 8;
constexpr int64_t kTokens = 20, kWindow = 7;

// Returns the path of a token file, which is written once.
const std::string& token_path() {
  static const std::string path = [] {
    constexpr int32_t kHeader[] = {20240520, 1, kTokens};  // magic, version, tokens
    std::string bytes(kHeaderBytes + 2 * kTokens, '\0');
    std::memcpy(bytes.data(), kHeader, sizeof kHeader);
    return write_input(kFile, bytes);
  }();
  return path;
}

void parse(std::string_view bytes) {
  const trainer::TokenFile file(token_path());
  write_input(std::string(kFile) + ".documents", bytes);
  const trainer::DocumentEnds ends(file, kWindow);
  const std::vector<int64_t> all = ends.between(0, kTokens);
  require(static_cast<int64_t>(all.size()) == ends.documents(), "a document is missing");
  require(all.front() > 0 && all.back() == kTokens, "the documents are not those of the tokens");
  require(std::ranges::adjacent_find(all, std::greater_equal<>()) == all.end(), "the ends do not ascend");
  require(ends.most_in_window() >= 1 && ends.most_in_window() <= kWindow, "a window has too many documents");
}

// The header gets the number of ends that follow it.
std::string mended(std::string bytes) {
  if (bytes.size() <= kHeaderBytes) return bytes;
  const size_t count = (bytes.size() - kHeaderBytes) / sizeof(int32_t);
  bytes.resize(kHeaderBytes + count * sizeof(int32_t));
  for (size_t i = 0; i < 4; ++i) bytes[kCountAt + i] = static_cast<char>(count >> (8 * i));
  return bytes;
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse, .mend = mended};

}  // namespace strata::fuzz
