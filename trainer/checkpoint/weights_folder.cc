// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/weights_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/printable.h"

namespace strata::trainer {
namespace {

constexpr char kOneFile[] = "model.safetensors";
// An index of 100,000 tensors has about this size. Parsing a hostile index takes up to 75 bytes of memory per byte.
constexpr uint64_t kLargestIndex = 10'000'000;

bool is_plain_file_name(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
  return name.size() <= NAME_MAX && name.ends_with(".safetensors") && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), plain);
}

// Reads the index: tensor name -> file name.
std::map<std::string, std::string> read_index(const std::string& path) {
  const auto refuse = [&](const std::string& what) -> Error { return Error(ExitCode::data, path + ": " + what); };
  nlohmann::json index;
  try {
    index = nlohmann::json::parse(read_text_file(path, kLargestIndex, ExitCode::data));
  } catch (const nlohmann::json::exception& error) {
    // The message ends with the last word of the file, which may be all of it.
    throw refuse("not JSON: " + printable(std::string(error.what()).substr(0, 200)));
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw refuse("expected an object with a weight_map of tensor names to file names");
  }
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (const std::string problem = tensor_name_problem(tensor); !problem.empty()) throw refuse(problem);
    if (!file.is_string() || !is_plain_file_name(file.get<std::string>())) {
      // dump() calls itself for each level of nesting, and a hostile index has enough levels to overflow the stack.
      const std::string found = file.is_string() ? file.dump() : file.type_name();
      throw refuse("'" + printable(tensor) + "' lies in " + printable_start(found) +
                   ", expected the name of a .safetensors file in the same folder");
    }
    file_of[tensor] = file.get<std::string>();
  }
  return file_of;
}

std::optional<at::ScalarType> float_type(const std::string& dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "BF16") return at::kBFloat16;
  if (dtype == "F16") return at::kHalf;
  return std::nullopt;
}

}  // namespace

std::string what_is_no_float(const SafetensorsEntry& entry) {
  if (float_type(entry.dtype)) return "";
  return printable(entry.name) + " is " + entry.dtype + ", expected F32, BF16 or F16";
}

WeightsFolder::WeightsFolder(std::string path) : path_(std::move(path)) {
  const std::string index = path_ + "/" + kWeightsIndex;
  if (!std::filesystem::exists(index)) {
    if (!std::filesystem::exists(path_ + "/" + kOneFile)) {
      throw Error(ExitCode::storage, path_ + ": no weights here: expected " + kOneFile + " or " + kWeightsIndex);
    }
    open(kOneFile);
    return;
  }
  const auto file_of = read_index(index);
  std::vector<std::string> files;
  for (const auto& [tensor, file] : file_of) files.push_back(file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const std::string& file : files) open(file);
  for (const auto& [tensor, file] : file_of) {
    const auto place = places_.find(tensor);
    if (place == places_.end() || files[place->second.file] != file) {
      throw Error(ExitCode::data, index + ": '" + printable(tensor) + "' is not in " + file);
    }
  }
  for (const auto& [tensor, place] : places_) {
    if (file_of.contains(tensor)) continue;
    throw Error(ExitCode::data, index + ": '" + printable(tensor) + "' of " + files[place.file] + " is not listed");
  }
}

void WeightsFolder::open(const std::string& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(path_ + "/" + file, ExitCode::data));
  for (const SafetensorsEntry& entry : files_.back()->header().entries) {
    if (places_.emplace(entry.name, Place{files_.size() - 1, &entry}).second) continue;
    throw Error(ExitCode::data, path_ + "/" + file + ": '" + printable(entry.name) + "' is in another file too");
  }
}

std::vector<std::string> WeightsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

const SafetensorsEntry* WeightsFolder::find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : place->second.entry;
}

at::Tensor WeightsFolder::read(const std::string& name, int64_t first, int64_t count) const {
  const Place& place = places_.at(name);
  const auto type = float_type(place.entry->dtype);
  if (!type) throw Error(ExitCode::data, path_ + ": " + what_is_no_float(*place.entry));
  const at::Tensor values = at::empty({count}, *type);
  files_[place.file]->read(*place.entry, static_cast<uint64_t>(first) * values.itemsize(), values.mutable_data_ptr(),
                           values.nbytes());
  return values.to(at::kFloat);
}

}  // namespace strata::trainer
