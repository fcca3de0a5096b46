// SPDX-License-Identifier: MIT
#include "tools/weights/weights_writer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/formatted.h"
#include "tools/weights/rounded_weight.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;
using Weights = std::vector<Weight>;

uint64_t bytes_of(const Weight& weight, at::ScalarType type) {
  uint64_t bytes = c10::elementSize(type);
  for (const int64_t extent : weight.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

std::vector<Weights> spread_over_files(Weights weights, uint64_t file_bytes, at::ScalarType type) {
  std::sort(weights.begin(), weights.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<Weights> files(1);
  uint64_t bytes = 0;
  for (Weight& weight : weights) {
    const uint64_t size = bytes_of(weight, type);
    if (bytes > 0 && bytes + size > file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(weight));
  }
  return files;
}

std::string file_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return formatted("model-%05zu-of-%05zu.safetensors", index + 1, count);
}

void write_file(const std::string& path, const Weights& weights, at::ScalarType type) {
  trainer::SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  const std::string dtype = trainer::dtype_name(at::empty({0}, type));
  std::map<std::string, const Weight*> by_name;
  for (const Weight& weight : weights) {
    header.entries.push_back({.name = weight.name, .dtype = dtype, .shape = weight.shape});
    by_name[weight.name] = &weight;
  }
  OutputFile file(path);
  file.write(place_safetensors(header));
  for (const auto& entry : header.entries) {
    const at::Tensor wide = by_name.at(entry.name)->values(), values = rounded_weight(entry.name, wide, type);
    if (wide.scalar_type() != at::kFloat || !values.is_contiguous() || values.nbytes() != entry.bytes) {
      throw Error(ExitCode::internal, path + ": the values of " + entry.name + " are not fp32 of its shape");
    }
    file.write({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  file.close();
}

// A reader of the folder would find two models in it and might load the older one.
void refuse_other_weights(const std::string& folder) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename();
    if (name != trainer::kWeightsIndex && !(name.starts_with("model") && name.ends_with(".safetensors"))) continue;
    throw Error(ExitCode::storage, folder + " has weights already: " + name + "; name another folder, or remove them");
  }
  if (problem) throw Error(ExitCode::storage, folder + " cannot be read: " + problem.message());
}

}  // namespace

std::string write_weights(const std::string& folder, Weights weights, uint64_t file_bytes, at::ScalarType type) {
  const size_t count = weights.size();
  const std::vector<Weights> files = spread_over_files(std::move(weights), file_bytes, type);
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) throw Error(ExitCode::storage, folder + " cannot be made: " + problem.message());
  refuse_other_weights(folder);
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  uint64_t total = 0;
  std::vector<std::string> paths;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = file_name(i, files.size());
    paths.push_back(folder + "/" + name);
    fs::remove(paths.back() + ".tmp");
    try {
      write_file(paths.back() + ".tmp", files[i], type);
    } catch (...) {
      for (const std::string& path : paths) fs::remove(path + ".tmp", problem);
      throw;
    }
    for (const Weight& weight : files[i]) {
      index["weight_map"][weight.name] = name;
      total += bytes_of(weight, type);
    }
  }
  for (const std::string& path : paths) rename_path(path + ".tmp", path);
  index["metadata"]["total_size"] = total;
  if (files.size() > 1) replace_file(folder + "/" + trainer::kWeightsIndex, index.dump(2) + "\n");
  sync_folder(folder);
  return std::to_string(count) + " tensors, " + std::to_string(total) + " bytes in " +
         (files.size() == 1 ? paths[0] : folder);
}

}  // namespace strata::tools
