// SPDX-License-Identifier: MIT
#include "tools/replay/saved_layer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/json_count.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"

namespace strata::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostJson = 1 << 24;   // bytes
constexpr size_t kLongestText = 1 << 10;  // bytes; a member of the JSON

// The tensors of a call that hold whole numbers. All others hold floats.
constexpr std::array<std::string_view, 4> kIntegers = {"context.dropout_key", "context.graph_offsets",
                                                       "context.graph_neighbors", "context.document_offsets"};
constexpr std::array<std::string_view, 8> kFloats = {
    "input.residual", "input.branch", "output_gradient.residual", "output_gradient.branch",
    "context.cosine", "context.sine", "context.edge_weight",      "context.aggregated_features",
};

std::optional<at::ScalarType> type_of(const std::string& dtype) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong, at::kInt}) {
    if (trainer::dtype_name(at::empty({0}, type)) == dtype) return type;
  }
  return std::nullopt;
}

// Returns what is wrong with an entry of layer.safetensors, or an empty text.
std::string problem_of(const trainer::SafetensorsEntry& entry) {
  const std::optional<at::ScalarType> type = type_of(entry.dtype);
  const bool has_integers = std::ranges::find(kIntegers, entry.name) != kIntegers.end();
  const bool has_floats = std::ranges::find(kFloats, entry.name) != kFloats.end();
  const bool is_module_tensor = entry.name.starts_with("weight.") || entry.name.starts_with("amax.");
  if (!has_integers && !has_floats && !is_module_tensor) return "is no tensor of a layer";
  if (!type || has_integers == at::isFloatingType(*type)) return "is " + entry.dtype;
  // A shape with a 0 fits into any file, and LibTorch refuses strides that overflow.
  int64_t stride = 1;
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(stride, std::max<int64_t>(extent, 1), &stride)) return "has a shape that is too large";
  }
  return "";
}

Json json_of(const SavedLayer::Seen& seen, bool saved) {
  return {{"dtype", seen.dtype},           {"shape", seen.shape},
          {"nan", seen.facts.nan},         {"infinite", seen.facts.infinite},
          {"largest", seen.facts.largest}, {"saved", saved}};
}

// Returns the hash of the file.
std::string write_tensors(const std::string& path, const SavedLayer& layer) {
  trainer::SafetensorsHeader header;
  for (const auto& [name, tensor] : layer.tensors) {
    header.entries.push_back({.name = name, .dtype = trainer::dtype_name(tensor), .shape = tensor.sizes().vec()});
  }
  std::filesystem::remove(path + ".tmp");
  OutputFile file(path + ".tmp");
  file.write(place_safetensors(header));
  for (const auto& entry : header.entries) {
    const at::Tensor values = layer.tensors.at(entry.name).contiguous();
    file.write({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  file.close();
  rename_path(path + ".tmp", path);
  return file.sha256();
}

std::string facts_text(const SavedLayer& layer, const std::string& sha256) {
  const at::Tensor* const key = layer.find("context.dropout_key");
  Json json = {{"step", layer.step},
               {"micro_batch", layer.micro_batch},
               {"rank", layer.rank},
               {"ranks", layer.ranks},
               {"layer", layer.layer},
               {"name", layer.name},
               {"direction", layer.backward ? "backward" : "forward"},
               {"op", layer.op},
               {"dropout_key", key == nullptr ? Json() : Json(key->item<int64_t>())},
               {"first_row", layer.first_row},
               {"sources", layer.sources},
               {"gradient_type", layer.gradient_type},
               {"tensors_sha256", sha256},
               {"tensors", Json::object()}};
  for (const auto& [name, tensor] : layer.tensors) json["tensors"][name] = json_of(seen(tensor), /*saved=*/true);
  for (const auto& [name, facts] : layer.seen) json["tensors"][name] = json_of(facts, /*saved=*/false);
  return json.dump(2) + "\n";
}

// The members of nonfinite.json. Each is checked as it is read.
class Members {
 public:
  explicit Members(std::string path) : path_(std::move(path)) {
    // Deeper members, such as the facts of tensors, are for people and are skipped. Nested lists would take a hundred
    // times the memory of their text.
    const auto outermost = [](int depth, auto, auto&) { return depth <= 1; };
    json_ = nlohmann::json::parse(read_text_file(path_, kMostJson), outermost, /*allow_exceptions=*/false);
    if (!json_.is_object()) refuse("no JSON object");
  }

  int64_t count(const char* name) const {
    const std::optional<int64_t> value = json_count(json_.value(name, nlohmann::json()));
    if (!value) refuse(std::string(name) + " is missing, or no whole number from 0 on");
    return *value;
  }

  std::string text(const char* name) const {
    const nlohmann::json value = json_.value(name, nlohmann::json());
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText) {
      refuse(std::string(name) + " is missing, or no text of at most " + std::to_string(kLongestText) + " bytes");
    }
    return value.get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::storage, path_ + ": not what a replay has saved: " + printable(what));
  }

 private:
  std::string path_;
  nlohmann::json json_;
};

}  // namespace

const at::Tensor* SavedLayer::find(const std::string& tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

SavedLayer::Seen seen(const at::Tensor& tensor) {
  return {trainer::dtype_name(tensor), tensor.sizes().vec(), facts_of(tensor)};
}

void write_layer(const std::string& folder, const SavedLayer& layer, const std::string& resolved_config) {
  create_folders(folder);
  const std::string sha256 = write_tensors(folder + "/" + kSavedLayerTensors, layer);
  replace_file(folder + "/" + kSavedLayerConfig, resolved_config);
  replace_file(folder + "/" + kSavedLayerFacts, facts_text(layer, sha256));
  sync_folder(folder);
}

SavedLayer read_layer(const std::string& folder) {
  const Members members(folder + "/" + kSavedLayerFacts);
  SavedLayer layer;
  layer.step = members.count("step");
  layer.micro_batch = members.count("micro_batch");
  layer.rank = members.count("rank");
  layer.ranks = members.count("ranks");
  layer.layer = members.count("layer");
  layer.first_row = members.count("first_row");
  layer.sources = members.count("sources");
  layer.name = members.text("name");
  layer.op = members.text("op");
  layer.gradient_type = members.text("gradient_type");
  const std::string direction = members.text("direction");
  if (direction != "forward" && direction != "backward") members.refuse("direction is '" + direction + "'");
  layer.backward = direction == "backward";
  const std::optional<at::ScalarType> type = type_of(layer.gradient_type);
  if (!type || !at::isFloatingType(*type)) members.refuse("gradient_type is '" + layer.gradient_type + "'");

  const std::string path = folder + "/" + kSavedLayerTensors;
  const trainer::SafetensorsFile file(path);
  if (sha256_of_file(path) != members.text("tensors_sha256")) {
    throw Error(ExitCode::storage,
                path + ": its SHA-256 is not the one in " + kSavedLayerFacts + ": it is damaged, or of another replay");
  }
  for (const auto& entry : file.header().entries) {
    if (const std::string problem = problem_of(entry); !problem.empty()) {
      throw Error(ExitCode::storage, path + ": " + printable(entry.name) + " " + problem);
    }
    const at::Tensor values = at::empty(entry.shape, type_of(entry.dtype).value());
    file.read(entry, 0, values.mutable_data_ptr(), entry.bytes);
    layer.tensors[entry.name] = values;
  }
  return layer;
}

at::ScalarType gradient_type(const SavedLayer& layer) { return type_of(layer.gradient_type).value(); }

}  // namespace strata::tools
