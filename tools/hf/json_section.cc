// SPDX-License-Identifier: MIT
#include "tools/hf/json_section.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "configs/value.h"

namespace strata::hf {

JsonSection::JsonSection(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json.is_object()) throw Error(ExitCode::data, path_ + ": expected a JSON object");
}

std::vector<std::string> JsonSection::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : json_.items()) all.push_back(key);
  return all;
}

int64_t JsonSection::count(const char* key, const Json& value, int64_t most) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 ||
      value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    throw refuse(key, "a positive integer" + (most == kMost ? "" : " up to " + std::to_string(most)));
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

int64_t JsonSection::count(const char* key, int64_t most) const { return count(key, at(key), most); }

int64_t JsonSection::count_or_zero(const char* key, int64_t most) const { return at(key) == 0 ? 0 : count(key, most); }

std::vector<int64_t> JsonSection::counts(const char* key, int64_t most) const {
  if (!at(key).is_array()) throw refuse(key, "a list of positive integers");
  std::vector<int64_t> all;
  for (const Json& value : at(key)) all.push_back(count(key, value, most));
  return all;
}

// nlohmann-json converts 2^64 - 1 to -1.
int64_t JsonSection::integer(const char* key, const Json& value, const char* expected) const {
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
  if (!value.is_number_integer() || !fits) throw refuse(key, expected);
  return value.get<int64_t>();
}

int64_t JsonSection::integer(const char* key) const { return integer(key, at(key), "an integer"); }

std::vector<int64_t> JsonSection::integers(const char* key) const {
  if (!is_list(key)) return {integer(key)};
  std::vector<int64_t> all;
  for (const Json& value : at(key)) all.push_back(integer(key, value, "a list of integers"));
  return all;
}

double JsonSection::positive(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number() || !(value.get<double>() > 0) || std::isinf(value.get<double>())) {
    throw refuse(key, "a positive number");
  }
  return value.get<double>();
}

double JsonSection::number(const char* key, configs::Limits limits) const {
  const Json& value = at(key);
  if (!value.is_number() || !limits.allow(value.get<double>())) {
    throw refuse(key, std::string("a number ") + (limits.excludes_minimum ? "above " : "from ") +
                          configs::to_text(limits.minimum) + " up to " + configs::to_text(limits.maximum));
  }
  return value.get<double>();
}

std::vector<double> JsonSection::numbers(const char* key) const {
  std::vector<double> all;
  for (const Json& value : at(key)) {
    if (!at(key).is_array() || !value.is_number()) throw refuse(key, "a list of numbers");
    all.push_back(value.get<double>());
  }
  return all;
}

double JsonSection::share(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() >= 1) {
    throw refuse(key, "a number from 0 to below 1");
  }
  return value.get<double>();
}

bool JsonSection::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_boolean()) throw refuse(key, "true or false");
  return json_[key].get<bool>();
}

std::string JsonSection::text(const char* key) const {
  if (!at(key).is_string()) throw refuse(key, "a text");
  return json_[key].get<std::string>();
}

std::vector<std::string> JsonSection::texts(const char* key) const {
  std::vector<std::string> all;
  for (const Json& value : at(key)) {
    if (!at(key).is_array() || !value.is_string()) throw refuse(key, "a list of texts");
    all.push_back(value.get<std::string>());
  }
  return all;
}

void JsonSection::refuse_other_keys(std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : json_.items()) {
    if (value.is_null() || asked_.contains(key)) continue;
    if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
    throw refuse(key, "no such key, because Strata does not have what it stands for");
  }
}

Error JsonSection::refuse(const std::string& key, const std::string& expected) const {
  std::string came = "nothing";
  if (json_.contains(key)) {
    // dump() calls itself for each level of nesting, and a hostile file has enough levels to overflow the stack.
    const Json& value = json_[key];
    came = value.is_structured() ? std::string("an ") + value.type_name() : value.dump();
  }
  return Error(ExitCode::data,
               path_ + ": " + key.substr(0, 100) + ": expected " + expected + ", got " + came.substr(0, 100));
}

const JsonSection::Json& JsonSection::at(const char* key) const {
  if (!has(key)) throw Error(ExitCode::data, path_ + ": " + key + " is missing");
  return json_[key];
}

}  // namespace strata::hf
