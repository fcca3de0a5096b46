// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/text/joined.h"
#include "trainer/checkpoint/safetensors_parser.h"

namespace strata::trainer {
namespace {

constexpr std::pair<std::string_view, uint64_t> kDtypes[] = {
    {"F64", 8},  {"I64", 8}, {"U64", 8}, {"C64", 8}, {"F32", 4}, {"I32", 4},     {"U32", 4},     {"F16", 2},
    {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1},
};

uint64_t bytes_of(const SafetensorsEntry& entry) {
  uint64_t bytes = bytes_of_dtype(entry.dtype).value();
  for (const int64_t extent : entry.shape) bytes *= extent;
  return bytes;
}

}  // namespace

std::string tensor_name_problem(std::string_view name) {
  constexpr size_t kLongest = 1024;
  if (name.size() <= kLongest) return "";
  return "a name of " + std::to_string(name.size()) + " bytes, at most " + std::to_string(kLongest);
}

std::optional<uint64_t> bytes_of_dtype(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return "[" + joined(shape, ", ", [](int64_t extent) { return std::to_string(extent); }) + "]";
}

std::string place_safetensors(SafetensorsHeader& header) {
  const auto expect = [](size_t count, uint64_t most, const char* what) {
    if (count <= most) return;
    throw Error(ExitCode::storage, "a file of " + std::to_string(count) + what + " cannot be read again, at most " +
                                       std::to_string(most) + " can; spread the tensors over more files or ranks");
  };
  expect(header.entries.size(), kMostTensors, " tensors");
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    const uint64_t width_a = bytes_of_dtype(a.dtype).value(), width_b = bytes_of_dtype(b.dtype).value();
    return width_a != width_b ? width_a > width_b : a.name < b.name;
  });
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  auto& members = json.get_ref<nlohmann::ordered_json::object_t&>();  // json[name] would search through all names
  if (!header.metadata.empty()) members.emplace_back("__metadata__", header.metadata);
  uint64_t end = 0;
  for (SafetensorsEntry& entry : header.entries) {
    entry.begin = end;
    entry.bytes = bytes_of(entry);
    end += entry.bytes;
    members.emplace_back(
        entry.name,
        nlohmann::ordered_json{{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, end}}});
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  expect(text.size(), kLargestHeader, " bytes of header");
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i));
  return bytes + text;
}

SafetensorsFile::SafetensorsFile(const std::string& path, ExitCode malformed) : file_(path) {
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) throw Error(malformed, path + ": not a safetensors file: " + what);
  };
  expect(file_.bytes() >= 8, "it has " + std::to_string(file_.bytes()) + " bytes, a file begins with 8");
  unsigned char length[8];
  file_.read(0, length, sizeof length);
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) bytes |= static_cast<uint64_t>(length[i]) << (8 * i);
  expect(bytes <= kLargestHeader && bytes <= file_.bytes() - 8,
         "a header of " + std::to_string(bytes) + " bytes in a file of " + std::to_string(file_.bytes()) +
             " (at most 100 MB)");
  std::string json(bytes, '\0');
  file_.read(8, json.data(), bytes);
  data_begin_ = 8 + bytes;
  header_ = parse_safetensors_header(json, file_.bytes() - data_begin_, path, malformed);
  by_name_.resize(header_.entries.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return header_.entries[a].name < header_.entries[b].name; });
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto& entries = header_.entries;
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t entry, std::string_view wanted) { return entries[entry].name < wanted; });
  return found == by_name_.end() || entries[*found].name != name ? nullptr : &entries[*found];
}

void SafetensorsFile::read(const SafetensorsEntry& entry, uint64_t first, void* into, uint64_t bytes) const {
  if (first > entry.bytes || bytes > entry.bytes - first) {
    throw Error(ExitCode::internal, file_.path() + ": " + entry.name + " has " + std::to_string(entry.bytes) +
                                        " bytes, asked for " + std::to_string(bytes) + " at " + std::to_string(first));
  }
  file_.read(data_begin_ + entry.begin + first, into, bytes);
}

}  // namespace strata::trainer
