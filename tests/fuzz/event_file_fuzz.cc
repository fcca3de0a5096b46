// SPDX-License-Identifier: MIT
// Fuzzes the TensorBoard event file of a run that is resumed at step 5: what is kept is the begin of the file.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/report/event_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "events.out.tfevents.1.host.1.0";
constexpr size_t kLengthBytes = 8, kHeadBytes = 12, kFrame = 16;

void parse(std::string_view bytes) {
  const std::string path = write_input(kFile, bytes);
  {
    const trainer::EventFile file(input_folder(), /*resumed_step=*/5,
                                  [](const std::string& warning) { throw Broken{"a warning: " + warning}; });
  }
  std::ifstream file(path, std::ios::binary);
  const std::string kept{std::istreambuf_iterator<char>(file), {}};
  if (bytes.starts_with(kept)) return;
  require(kept.size() < 100 && kept.find("brain.Event:2") != std::string::npos, "a file with other bytes");
  throw Error(ExitCode::storage, "not even the first record was intact, so the file starts anew");
}

void append_checksum(std::string& result, std::string_view bytes) {
  const uint32_t crc = trainer::crc32c(bytes), masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8;
  for (int i = 0; i < 4; ++i) result += static_cast<char>(masked >> (8 * i));
}

// Every record gets the right checksums, and the last one the right length.
std::string mended(std::string bytes) {
  std::string result;
  for (size_t at = 0; bytes.size() - at >= kFrame;) {
    size_t length = 0;
    for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    length = std::min(length, bytes.size() - at - kFrame);
    std::string head;
    for (size_t i = 0; i < kLengthBytes; ++i) head += static_cast<char>(length >> (8 * i));
    const std::string message = bytes.substr(at + kHeadBytes, length);
    result += head;
    append_checksum(result, head);
    result += message;
    append_checksum(result, message);
    at += length + kFrame;
  }
  return result;
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::storage, .file = "", .parse = parse, .mend = mended};

}  // namespace strata::fuzz
