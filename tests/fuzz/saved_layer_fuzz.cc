// SPDX-License-Identifier: MIT
// Fuzzes the folder of a saved layer. A line `====` separates nonfinite.json and layer.safetensors in an input. The
// word HASH in the JSON becomes the SHA-256 of the tensors: without it, nothing but the hash would be tried.
#include <algorithm>

#include "base/digest.h"
#include "tests/fuzz/harness/input_files.h"
#include "tools/replay/saved_layer.h"

namespace strata::fuzz {
namespace {

constexpr std::string_view kSeparator = "\n====\n", kHash = "HASH";

void parse(std::string_view bytes) {
  const size_t end = std::min(bytes.find(kSeparator), bytes.size());
  const std::string_view tensors = bytes.substr(std::min(end + kSeparator.size(), bytes.size()));
  std::string json(bytes.substr(0, end));
  if (const size_t place = json.find(kHash); place != std::string::npos) {
    json.replace(place, kHash.size(), sha256(tensors));
  }
  write_input(tools::kSavedLayerFacts, json);
  write_input(tools::kSavedLayerTensors, tensors);
  const tools::SavedLayer layer = tools::read_layer(input_folder());
  require(layer.step >= 0 && layer.layer >= 0 && layer.sources >= 0, "a count is negative");
  require(at::isFloatingType(tools::gradient_type(layer)), "gradients are no floats");
  size_t held = 0;
  for (const auto& [name, tensor] : layer.tensors) {
    held += tensor.nbytes();
    const bool has_integers = !tensor.is_floating_point();
    require(!has_integers || name.starts_with("context."), "a weight or a gradient is no float");
  }
  require(held <= tensors.size(), "the tensors have more bytes than their file");
}

}  // namespace

// Messages name the folder, or one of the two files in it.
const Target kTarget = {
    .refusal = ExitCode::storage,
    .file = "strata-",
    .parse = parse,
    .words = {"HASH", "\"sources\":", "\"direction\"", "\"I64\"", "weight.a", "context.graph_offsets", kDeep,
              "\"input.branch\":{\"dtype\":\"F64\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]},"}};

}  // namespace strata::fuzz
