// SPDX-License-Identifier: MIT
// Fuzzes a folder of weights in two files with an index. Two lines `====` separate the index and the files in an input.
// An input without such a line is the only file of a folder without an index.
#include <array>
#include <filesystem>
#include <functional>
#include <numeric>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata::fuzz {
namespace {

constexpr std::string_view kSeparator = "\n====\n";
constexpr std::array<const char*, 3> kFiles = {trainer::kWeightsIndex, "a.safetensors", "b.safetensors"};

constexpr char kOneFile[] = "model.safetensors";

void write_files(std::string_view bytes) {
  if (bytes.find(kSeparator) == std::string_view::npos) {
    std::filesystem::remove(input_folder() + "/" + trainer::kWeightsIndex);
    write_input(kOneFile, bytes);
    return;
  }
  for (const char* name : kFiles) {
    const size_t end = std::min(bytes.find(kSeparator), bytes.size());
    write_input(name, bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + kSeparator.size(), bytes.size()));
  }
}

void parse(std::string_view bytes) {
  write_files(bytes);
  const trainer::WeightsFolder folder(input_folder());
  for (const std::string& name : folder.names()) {
    const trainer::SafetensorsEntry* const entry = folder.find(name);
    require(entry != nullptr, "a tensor is not found");
    if (!trainer::what_is_no_float(*entry).empty()) continue;
    const int64_t count = std::accumulate(entry->shape.begin(), entry->shape.end(), int64_t{1}, std::multiplies<>());
    require(folder.read(name, 0, count).numel() == count, "a tensor has another size");
  }
}

}  // namespace

// Messages name the folder, or one of the files in it.
const Target kTarget = {.refusal = ExitCode::data,
                        .file = "strata-",
                        .parse = parse,
                        .unopened = ExitCode::storage,  // of an index
                        .words = {"\"weight_map\"", "\"../b.safetensors\"", "\"b.safetensors\"", kDeep}};

}  // namespace strata::fuzz
