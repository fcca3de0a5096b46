// SPDX-License-Identifier: MIT
// Writes the weights of a checkpoint as whole fp32 tensors into safetensors files, which every reader of the format
// opens.
#include <ATen/ops/empty.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "configs/errors.h"
#include "trainer/checked_file.h"
#include "trainer/checkpoint_loader.h"
#include "trainer/safetensors.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using trainer::SafetensorsHeader;

constexpr std::string_view kMaster = "/master";  // the fp32 weights; the optimizer's tensors stay behind

// The weights in order of their names, as many in each file as fit; a single larger one has a file of its own.
std::vector<SafetensorsHeader> files_of(const trainer::Manifest& manifest, uint64_t file_bytes) {
  std::vector<SafetensorsHeader> files(1);
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!name.ends_with(kMaster)) continue;
    const uint64_t size = trainer::element_count(tensor.shape) * trainer::bytes_of_dtype(tensor.dtype).value();
    if (bytes > 0 && bytes + size > file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().entries.push_back(
        {.name = name.substr(0, name.size() - kMaster.size()), .dtype = tensor.dtype, .shape = tensor.shape});
  }
  return files;
}

std::string file_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// One tensor at a time in memory.
void write_file(const std::string& path, SafetensorsHeader& header, const trainer::FoundCheckpoint& found) {
  header.metadata = {{"format", "pt"}};
  trainer::OutputFile file(path);
  file.write(place_safetensors(header));
  for (const auto& entry : header.entries) {
    if (entry.dtype != "F32") {
      throw Error(ExitCode::internal, found.path + ": " + entry.name + " is " + entry.dtype + ", expected F32");
    }
    const trainer::TensorPiece piece = {entry.name + std::string(kMaster), entry.shape, 0,
                                        at::empty({trainer::element_count(entry.shape)}, at::kFloat)};
    read_pieces(found, {piece});
    file.write({static_cast<const char*>(piece.data.const_data_ptr()), piece.data.nbytes()});
  }
  file.close();
}

// Files appear under their names when all of them are written.
void export_weights(const trainer::FoundCheckpoint& found, const std::string& folder, uint64_t file_bytes) {
  std::vector<SafetensorsHeader> files = files_of(found.manifest, file_bytes);
  fs::create_directories(folder);
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  uint64_t total = 0;
  std::vector<std::string> paths;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = file_name(i, files.size());
    paths.push_back(folder + "/" + name);
    if (fs::exists(paths.back())) throw Error(ExitCode::storage, paths.back() + " exists already; name another folder");
    fs::remove(paths.back() + ".tmp");
    write_file(paths.back() + ".tmp", files[i], found);
    for (const auto& entry : files[i].entries) {
      index["weight_map"][entry.name] = name;
      total += entry.bytes;
    }
  }
  for (const std::string& path : paths) trainer::rename_path(path + ".tmp", path);
  index["metadata"]["total_size"] = total;
  if (files.size() > 1) trainer::replace_file(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
  trainer::sync_folder(folder);
  std::printf("step %lld: %zu tensors, %llu bytes in %s\n", static_cast<long long>(found.manifest.step),
              index["weight_map"].size(), static_cast<unsigned long long>(total),
              files.size() == 1 ? paths[0].c_str() : folder.c_str());
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  CLI::App app("Writes the weights of a run as whole fp32 tensors into FOLDER/model.safetensors.", "export");
  std::string run, folder;
  std::optional<int64_t> step;
  uint64_t file_bytes = 5'000'000'000;
  app.add_option("RUN", run, "folder of the run")->required();
  app.add_option("FOLDER", folder, "where to write; made when it does not exist")->required();
  app.add_option("--step", step, "of the checkpoint; otherwise the newest that is whole");
  app.add_option("--file-bytes", file_bytes, "above which the weights are spread over several files with an index")
      ->capture_default_str();
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(strata::ExitCode::configuration);
  }
  try {
    const auto found =
        strata::trainer::find_checkpoint({.folder = run + "/checkpoints", .required = true, .step = step}, {});
    for (const std::string& note : found->notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
    strata::export_weights(*found, folder, file_bytes);
    return 0;
  } catch (const strata::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(strata::ExitCode::internal);
  }
}
