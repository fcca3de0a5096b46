// SPDX-License-Identifier: MIT
#include "tests/fuzz/harness/zip_checksums.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

namespace strata::fuzz {
namespace {

constexpr size_t kCentralBytes = 46, kLocalBytes = 30, kMostBytes = 1 << 20;
constexpr size_t kDeflated = 8;

size_t number(const std::string& bytes, size_t at, int count) {
  size_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)]);
  return value;
}

void set_number(std::string& bytes, size_t at, size_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

std::string inflated(std::string data) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return "";
  std::string bytes(kMostBytes, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  inflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

}  // namespace

std::string with_zip_checksums(std::string archive) {
  for (size_t at = archive.find("PK\1\2"); at < archive.size(); at = archive.find("PK\1\2", at + 1)) {
    if (archive.size() - at < kCentralBytes) break;
    const size_t method = number(archive, at + 10, 2), compressed = number(archive, at + 20, 4);
    const size_t local = number(archive, at + 42, 4);
    if (local >= archive.size() || archive.size() - local < kLocalBytes) continue;
    const size_t begin = local + kLocalBytes + number(archive, local + 26, 2) + number(archive, local + 28, 2);
    if (begin > archive.size() || compressed > archive.size() - begin) continue;
    std::string content = archive.substr(begin, compressed);
    if (method == kDeflated) content = inflated(content);
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    set_number(archive, at + 16, checksum);
    set_number(archive, at + 24, content.size());
  }
  return archive;
}

}  // namespace strata::fuzz
