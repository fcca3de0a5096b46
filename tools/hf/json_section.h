// SPDX-License-Identifier: MIT
// One object of a JSON file from another program; every error names the file and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "configs/limits.h"

namespace strata::hf {

// The limits of `model:`. Products of such numbers fit into 64 bits.
inline constexpr int64_t kMostLayers = 10'000, kMostWidth = 1'000'000, kMostHeads = 100'000,
                         kMostFeedForward = 10'000'000, kMostTokens = 100'000'000;

// Throws Error(data) if a key is missing or its value has the wrong type.
class JsonSection {
 public:
  using Json = nlohmann::json;
  JsonSection(const Json& json, std::string path);  // keeps a reference to `json`

  bool has(const char* key) const { return names(key) && !json_[key].is_null(); }
  bool names(const char* key) const {  // true for null too
    asked_.insert(key);
    return json_.contains(key);
  }
  std::vector<std::string> keys() const;

  static constexpr int64_t kMost = 1'000'000'000;
  int64_t count(const char* key, int64_t most = kMost) const;  // an integer in [1, most]
  int64_t count_or_zero(const char* key, int64_t most = kMost) const;
  bool is_list(const char* key) const { return has(key) && json_[key].is_array(); }
  std::vector<int64_t> counts(const char* key, int64_t most = kMost) const;
  int64_t integer(const char* key) const;
  std::vector<int64_t> integers(const char* key) const;  // of one integer, or of a list of them
  double positive(const char* key) const;
  double number(const char* key, configs::Limits limits) const;
  std::vector<double> numbers(const char* key) const;
  double share(const char* key) const;  // a number in [0, 1)
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  JsonSection section(const char* key) const { return JsonSection(at(key), path_ + ": " + key); }

  // Throws unless the key is absent or has the only value that Strata supports.
  template <class Value>
  void expect(const char* key, const Value& only) const {
    if (has(key) && json_[key] != only) {
      throw refuse(key, Json(only).dump() + ", because Strata supports no other value");
    }
  }

  // Throws if there is a key that nothing asked for, unless it is null or one of `harmless`.
  void refuse_other_keys(std::span<const std::string_view> harmless) const;

  Error refuse(const std::string& key, const std::string& expected) const;
  const std::string& path() const { return path_; }

 private:
  const Json& at(const char* key) const;
  int64_t count(const char* key, const Json& value, int64_t most) const;
  int64_t integer(const char* key, const Json& value, const char* expected) const;

  const Json& json_;
  std::string path_;
  mutable std::set<std::string> asked_;  // keys
};

}  // namespace strata::hf
