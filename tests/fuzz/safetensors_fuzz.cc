// SPDX-License-Identifier: MIT
// Fuzzes safetensors files: the header is bounded, and the tensors tile the data of the file.
#include "tests/fuzz/harness/input_files.h"
#include "tests/fuzz/harness/read_again.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/safetensors_parser.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.safetensors";

void parse(std::string_view bytes) {
  const trainer::SafetensorsFile file(write_input(kFile, bytes));
  uint64_t next = 0;
  for (const trainer::SafetensorsEntry& entry : file.header().entries) {
    require(entry.begin == next, "tensors do not tile the data");
    next += entry.bytes;
    uint64_t bytes = trainer::bytes_of_dtype(entry.dtype).value();
    for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
    require(entry.bytes == bytes, "a tensor has other bytes than its shape says");
    std::string content(entry.bytes, '\0');
    file.read(entry, 0, content.data(), content.size());
    require(file.find(entry.name) != nullptr, "a tensor is not found by its name");
  }
  // The file that is written again has the same tensors, sorted in another way.
  trainer::SafetensorsHeader header = file.header();
  const std::string written = trainer::place_safetensors(header);
  const auto again =
      read_again([&] { return trainer::parse_safetensors_header(std::string_view(written).substr(8), next, kFile); });
  require(again.entries.size() == file.header().entries.size() && again.metadata == header.metadata,
          "a header that is written again has other tensors");
}

// The first 8 bytes get the length of the JSON object that follows them.
std::string mended(std::string bytes) {
  size_t end = 8;
  bool in_text = false;
  for (int depth = 0; end < bytes.size(); ++end) {
    if (bytes[end] == '\\' && in_text) {
      ++end;
    } else if (bytes[end] == '"') {
      in_text = !in_text;
    } else if (!in_text && bytes[end] == '{') {
      ++depth;
    } else if (!in_text && bytes[end] == '}' && --depth == 0) {
      break;
    }
  }
  if (end >= bytes.size()) return bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((end - 7) >> (8 * i));
  return bytes;
}

}  // namespace

const Target kTarget = {
    .refusal = ExitCode::storage,
    .file = kFile,
    .parse = parse,
    .mend = mended,
    .words = {"\"F32\"", "\"shape\"", "\"data_offsets\"", "\"dtype\"", "\"__metadata__\"", "\\u0000", "\"a\"", kDeep,
              "\"b\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]},"}};

}  // namespace strata::fuzz
