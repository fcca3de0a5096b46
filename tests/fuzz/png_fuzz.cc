// SPDX-License-Identifier: MIT
// Fuzzes PNG files. Mutations change the decompressed pixels, and every chunk gets the right checksum.
#include <zlib.h>

#include "tests/fuzz/harness/picture.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "picture.png";
constexpr size_t kSignature = 8, kMostPixelBytes = 1 << 20;

std::string big_endian(size_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// Returns the same pixels as a good zlib stream, or `data` if nothing can be decompressed. The checksum is not read.
std::string compressed_again(const std::string& data) {
  constexpr size_t kZlibHeader = 2;
  if (data.size() <= kZlibHeader) return data;
  z_stream stream{};
  require(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "inflateInit2");
  std::string pixels(kMostPixelBytes, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data() + kZlibHeader));
  stream.avail_in = static_cast<uInt>(data.size() - kZlibHeader);
  stream.next_out = reinterpret_cast<Bytef*>(pixels.data());
  stream.avail_out = static_cast<uInt>(pixels.size());
  inflate(&stream, Z_FINISH);
  pixels.resize(stream.total_out);
  inflateEnd(&stream);
  if (pixels.empty()) return data;
  uLongf bytes = compressBound(pixels.size());
  std::string result(bytes, '\0');
  // Level 0 stores the pixels as they are, so that the next mutation changes them too.
  compress2(reinterpret_cast<Bytef*>(result.data()), &bytes, reinterpret_cast<const Bytef*>(pixels.data()),
            pixels.size(), 0);
  result.resize(bytes);
  return result;
}

std::string mended(std::string bytes) {
  size_t at = kChoiceBytes + kSignature;
  if (bytes.size() < at) return bytes;
  std::string result = bytes.substr(0, at);
  while (bytes.size() - at >= 12) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    length = std::min(length, bytes.size() - at - 12);
    const std::string kind = bytes.substr(at + 4, 4);
    std::string data = bytes.substr(at + 8, length);
    if (kind == "IDAT") data = compressed_again(data);
    const std::string chunk = kind + data;
    const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
    result += big_endian(data.size()) + chunk + big_endian(checksum);
    at += 12 + length;
  }
  return result;
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data,
                        .file = kFile,
                        .parse = [](std::string_view bytes) { parse_picture(bytes, kFile); },
                        .mend = mended,
                        .mebibytes = kPictureMebibytes};

}  // namespace strata::fuzz
