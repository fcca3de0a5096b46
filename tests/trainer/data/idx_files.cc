// SPDX-License-Identifier: MIT
#include "tests/trainer/data/idx_files.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <stdexcept>

namespace strata::trainer {

std::string idx_bytes(const std::vector<uint32_t>& sizes, const std::vector<uint8_t>& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift);
  }
  bytes.append(values.begin(), values.end());
  return bytes;
}

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, /*windowBits: gzip*/ 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string write_images(const std::string& name, uint32_t count, uint32_t size, uint32_t classes) {
  // Several processes of a test may write the same name, so the path contains the process id.
  const std::string path = testing::TempDir() + "/" + name + "-" + std::to_string(::getpid());
  std::vector<uint8_t> pixels(count * size * size), labels(count);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<uint8_t>(i % classes);
  std::ofstream(path + "-images", std::ios::binary) << gzipped(idx_bytes({count, size, size}, pixels));
  std::ofstream(path + "-labels", std::ios::binary) << gzipped(idx_bytes({count}, labels));
  return path;
}

}  // namespace strata::trainer
