// SPDX-License-Identifier: MIT
// Fuzzes the sidecar of a token file with 20 tokens.
#include <cstring>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/text/sidecar.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "tokens.bin";

// Returns the path of a token file, which is written once.
const std::string& token_path() {
  static const std::string path = [] {
    constexpr int32_t kHeader[] = {20240520, 1, 20};  // magic, version, tokens
    std::string bytes(1024 + 2 * kHeader[2], '\0');
    std::memcpy(bytes.data(), kHeader, sizeof kHeader);
    return write_input(kFile, bytes);
  }();
  return path;
}

void parse(std::string_view bytes) {
  const trainer::TokenFile file(token_path());
  write_input(std::string(kFile) + ".json", bytes);
  const auto sidecar = trainer::read_sidecar(file);
  require(sidecar.has_value(), "a sidecar that is there was not read");
  require(sidecar->bytes > 0, "a text without bytes");
}

}  // namespace

const Target kTarget = {
    .refusal = ExitCode::data,
    .file = kFile,
    .parse = parse,
    .words = {"\"bytes\"", "\"tokens\"", "\"vocabulary\"", "\"largest_token\"", "\\ud800", "\xff", kDeep}};

}  // namespace strata::fuzz
