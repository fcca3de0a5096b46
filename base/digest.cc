// SPDX-License-Identifier: MIT
#include "base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>

#include "base/content_keys.h"
#include "base/errors.h"

namespace strata {
namespace {

void check(bool done) {
  if (!done) throw Error(ExitCode::internal, "OpenSSL could not compute a SHA-256");
}

struct Product {
  uint64_t low, high;
};

inline Product multiply(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return {static_cast<uint64_t>(product), static_cast<uint64_t>(product >> 64)};
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::update(const void* bytes, size_t count) { check(EVP_DigestUpdate(context_, bytes, count) == 1); }

std::string Sha256::hex() {
  unsigned char digest[32];
  check(EVP_DigestFinal_ex(context_, digest, nullptr) == 1);
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

// Four independent chains of the products of wyhash, because a processor starts a product each cycle and needs several
// for one.
uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed) {
  constexpr size_t kLanes = 4, kBlock = 16 * kLanes;
  const auto fold = [](uint64_t a, uint64_t b) {
    const Product product = multiply(a, b);
    return product.low ^ product.high;
  };
  std::array<uint64_t, kLanes> lanes;
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = fold(seed ^ kIndexKey, kValueKey + 2 * i);
  const auto add_block = [&](const char* block) {
    for (size_t i = 0; i < kLanes; ++i) {
      std::array<uint64_t, 2> words;
      std::memcpy(words.data(), block + 16 * i, 16);
      lanes[i] = fold(words[0] ^ kValueKey, words[1] ^ lanes[i]);
    }
  };
  const char* next = static_cast<const char*>(bytes);
  for (size_t left = count / kBlock; left > 0; --left, next += kBlock) add_block(next);
  if (const size_t rest = count % kBlock; rest > 0) {
    std::array<char, kBlock> last{};
    std::memcpy(last.data(), next, rest);
    add_block(last.data());
  }
  uint64_t hash = fold(count ^ kIndexKey, seed ^ kValueKey);
  for (const uint64_t lane : lanes) hash = fold(hash ^ kIndexKey, lane ^ kValueKey);
  return hash;
}

ContentSum sum_of_piece(const float* values, int64_t count, int64_t offset) {
  ContentSum sum;
  for (int64_t i = 0; i < count; ++i) {
    // Two rounds of a 128-bit product, as in wyhash. No factor of the first product is ever 0, because an index is
    // below 2^63 and the two halves of kValueKey differ.
    const uint64_t bits = std::bit_cast<uint32_t>(values[i]);
    const Product first = multiply(static_cast<uint64_t>(offset + i) ^ kIndexKey, (bits << 32 | bits) ^ kValueKey);
    const Product second = multiply(first.low ^ kValueKey, first.high ^ kIndexKey);
    sum.low += second.low ^ first.high;
    sum.high += second.high ^ first.low;
  }
  return sum;
}

std::string weights_sha256(std::vector<ParameterContent> parameters) {
  std::sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string text;  // one line for each parameter: name, shape, the two halves of the sum
  for (const ParameterContent& parameter : parameters) {
    text += parameter.name;
    for (const int64_t extent : parameter.shape) text += ' ' + std::to_string(extent);
    text += " sum " + std::to_string(parameter.sum.low) + ' ' + std::to_string(parameter.sum.high) + '\n';
  }
  return sha256(text);
}

}  // namespace strata
