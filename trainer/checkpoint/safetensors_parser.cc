// SPDX-License-Identifier: MIT
// Parses the header event by event. It builds no tree and checks every number before using it, so that a hostile header
// costs only a small multiple of its own bytes.
#include "trainer/checkpoint/safetensors_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/errors.h"
#include "base/text/printable.h"

namespace strata::trainer {
namespace {

constexpr size_t kMostMetadata = 10'000;
constexpr size_t kMostExtents = 32;

// The JSON element that is being parsed: the header, one tensor's description, one of its two lists, or the metadata.
enum class Place { before, header, tensor, shape, offsets, metadata, after };

struct HeaderHandler : nlohmann::json_sax<nlohmann::json> {
  SafetensorsHeader header;
  std::string problem;
  Place place = Place::before;
  std::string key_name;
  std::unordered_set<std::string> names;
  bool has_dtype = false, has_shape = false;
  std::vector<uint64_t> offsets;
  bool has_offsets = false;

  bool refuse(const std::string& what) {
    problem = what;
    return false;
  }
  bool unexpected(const char* what) { return refuse(std::string("unexpected ") + what + " at '" + key_name + "'"); }
  SafetensorsEntry& entry() { return header.entries.back(); }

  bool start_object(std::size_t) override {
    if (place == Place::before) {
      place = Place::header;
    } else if (place == Place::header && key_name == "__metadata__") {
      place = Place::metadata;
    } else if (place == Place::header) {
      place = Place::tensor;
      if (header.entries.size() == kMostTensors) return refuse("more than 100,000 tensors");
      header.entries.push_back({.name = key_name, .dtype = "", .shape = {}});
      has_dtype = has_shape = has_offsets = false;
      offsets.clear();
    } else {
      return unexpected("object");
    }
    return true;
  }

  bool key(std::string& name) override {
    key_name = name;
    if (const std::string problem = tensor_name_problem(name); !problem.empty()) return refuse(problem);
    if (name.find('\0') != std::string::npos) return refuse("a name with a NUL byte");
    if (place == Place::header && !names.insert(name).second) return refuse("'" + name + "' stands twice");
    if (place == Place::metadata && header.metadata.size() == kMostMetadata) {
      return refuse("more than 10,000 metadata entries");
    }
    if (place == Place::metadata && header.metadata.contains(name)) return refuse("'" + name + "' stands twice");
    if (place == Place::tensor) {
      bool* const had = name == "dtype"          ? &has_dtype
                        : name == "shape"        ? &has_shape
                        : name == "data_offsets" ? &has_offsets
                                                 : nullptr;
      if (had == nullptr) return refuse("'" + entry().name + "' has an unknown key '" + name + "'");
      if (*had) return refuse("'" + entry().name + "' has '" + name + "' twice");
      *had = true;
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place == Place::metadata) {
      header.metadata[key_name] = value;
    } else if (place == Place::tensor && key_name == "dtype") {
      if (!bytes_of_dtype(value)) {
        return refuse("'" + entry().name + "' has the unknown dtype '" + printable_start(value) + "'");
      }
      entry().dtype = value;
    } else {
      return unexpected("text");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place == Place::tensor && key_name == "shape") {
      place = Place::shape;
    } else if (place == Place::tensor && key_name == "data_offsets") {
      place = Place::offsets;
    } else {
      return unexpected("list");
    }
    return true;
  }

  bool end_array() override {
    if (place == Place::offsets && offsets.size() != 2) return refuse("data_offsets needs two numbers");
    place = Place::tensor;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place == Place::shape) {
      if (value > INT64_MAX) return unexpected("extent above 2^63");
      if (entry().shape.size() == kMostExtents) return refuse("'" + entry().name + "' has more than 32 extents");
      entry().shape.push_back(static_cast<int64_t>(value));
    } else if (place == Place::offsets && offsets.size() < 2) {
      offsets.push_back(value);
    } else {
      return unexpected("number");
    }
    return true;
  }

  bool end_object() override {
    if (place == Place::tensor) {
      place = Place::header;
      return finish_tensor();
    }
    place = place == Place::metadata ? Place::header : Place::after;
    return true;
  }

  bool finish_tensor() {
    if (!has_dtype || !has_shape || !has_offsets) {
      return refuse("'" + entry().name + "' needs dtype, shape and data_offsets");
    }
    uint64_t bytes = bytes_of_dtype(entry().dtype).value();
    for (const int64_t extent : entry().shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
        return refuse("the shape of '" + entry().name + "' overflows 64 bits");
      }
    }
    if (offsets[0] > offsets[1] || offsets[1] - offsets[0] != bytes) {
      return refuse("'" + entry().name + "' lies in [" + std::to_string(offsets[0]) + ", " +
                    std::to_string(offsets[1]) + "), its shape needs " + std::to_string(bytes) + " bytes");
    }
    entry().begin = offsets[0];
    entry().bytes = bytes;
    return true;
  }

  bool number_integer(int64_t) override { return unexpected("negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("number with a fraction or above 2^64"); }
  bool boolean(bool) override { return unexpected("boolean"); }
  bool null() override { return unexpected("null"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse("no valid JSON at byte " + std::to_string(position));
  }
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& path,
                                           ExitCode malformed) {
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) throw Error(malformed, path + ": not a safetensors file: " + printable(what));
  };
  expect(json.starts_with('{'), "the header does not begin with '{'");
  const size_t end = json.find_last_not_of(' ');
  expect(json[end] == '}', "the header does not end with '}' and spaces");

  HeaderHandler handler;
  expect(nlohmann::json::sax_parse(json.begin(), json.end(), &handler), handler.problem);

  auto& entries = handler.header.entries;
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes; });
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    expect(entry.begin == covered, "'" + entry.name + "' begins at byte " + std::to_string(entry.begin) +
                                       ", the one before ends at " + std::to_string(covered));
    covered += entry.bytes;  // at most the entry's end, which fits into 64 bits
  }
  expect(covered == data_bytes,
         "the tensors have " + std::to_string(covered) + " bytes, the file " + std::to_string(data_bytes));
  return std::move(handler.header);
}

}  // namespace strata::trainer
