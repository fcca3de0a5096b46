// SPDX-License-Identifier: MIT
// Fuzzes token files: every token of an accepted file can be read, and fits into the bytes of an id.
#include <algorithm>
#include <vector>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/data/text/token_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "tokens.bin";
constexpr size_t kHeaderBytes = 1024, kCountAt = 8;

void parse(std::string_view bytes) {
  const trainer::TokenFile file(write_input(kFile, bytes));
  std::vector<int64_t> ids(static_cast<size_t>(file.tokens()));
  file.read(0, file.tokens(), ids.data());
  const int64_t end = int64_t{1} << (8 * file.bytes_per_id());
  require(std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id >= 0 && id < end; }), "an id is too large");
  int64_t last = 0;
  file.read(file.tokens() - 1, 1, &last);
  require(last == ids.back(), "the last token differs");
}

// The header gets the number of 2-byte ids that follow it. A seed with 4-byte ids has as many again.
std::string mended(std::string bytes) {
  if (bytes.size() <= kHeaderBytes) return bytes;
  const size_t bytes_per_id = bytes[0] == '\xa1' ? 4 : 2;  // the lowest byte of 20240801
  const size_t count = (bytes.size() - kHeaderBytes) / bytes_per_id;
  bytes.resize(kHeaderBytes + count * bytes_per_id);
  for (size_t i = 0; i < 4; ++i) bytes[kCountAt + i] = static_cast<char>(count >> (8 * i));
  return bytes;
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse, .mend = mended};

}  // namespace strata::fuzz
