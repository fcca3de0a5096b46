// SPDX-License-Identifier: MIT
#include "tests/trainer/data/token_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace strata::trainer {

std::string write_bytes(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string write_tokens(const std::string& name, const std::vector<uint32_t>& ids, TokenFileParts parts) {
  std::vector<int32_t> header(256);
  header[0] = parts.magic;
  header[1] = parts.version;
  header[2] = parts.tokens == -1 ? static_cast<int32_t>(ids.size()) : parts.tokens;
  std::string bytes(reinterpret_cast<const char*>(header.data()), parts.header_bytes);
  for (const uint32_t id : ids) bytes.append(reinterpret_cast<const char*>(&id), parts.bytes_per_id);
  return write_bytes(name, bytes);
}

std::string write_document_ends(const std::string& name, const std::vector<int32_t>& ends,
                                std::vector<int32_t> header) {
  if (header.empty()) header = {20261125, 1, static_cast<int32_t>(ends.size()), ends.back()};
  header.resize(256);
  header.insert(header.end(), ends.begin(), ends.end());
  return write_bytes(name + ".documents",
                     std::string(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(int32_t)));
}

std::vector<uint32_t> counting(int64_t count, int64_t vocabulary) {
  std::vector<uint32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<uint32_t>(i % vocabulary);
  return ids;
}

std::string write_own_tokens(int64_t count, int64_t vocabulary) {
  std::vector<uint32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<uint32_t>((i * i + 7 * i) % vocabulary);
  return write_tokens("tokens-" + std::to_string(::getpid()) + ".bin", ids);
}

}  // namespace strata::trainer
