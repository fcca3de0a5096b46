// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/checkpoint_manifest.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/json_count.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "strata checkpoint 1";
constexpr std::string_view kHashLine = ",\n\"sha256\": \"";  // 64 digits follow
constexpr std::string_view kEnd = "\"\n}\n";
constexpr size_t kDeepest = 8;

[[noreturn]] void refuse(const std::string& what) { throw Damaged(what); }

// Refuses what nlohmann's parser accepts: equal keys, of which it keeps the last, and any depth. A callback of that
// parser could do the same, but in quadratic time: 4 MB took more than nine minutes.
struct StrictHandler : nlohmann::json_sax<Json> {
  std::vector<std::unordered_set<std::string>> keys;  // keys of the objects that are open
  size_t depth = 0;
  std::string problem = "is not valid JSON";

  bool refuse(const std::string& what) {
    problem = what;
    return false;
  }
  bool open() { return ++depth <= kDeepest || refuse("nested too deeply"); }
  bool close() {
    --depth;
    return true;
  }
  bool start_object(std::size_t) override {
    keys.emplace_back();
    return open();
  }
  bool end_object() override {
    keys.pop_back();
    return close();
  }
  bool key(std::string& name) override {
    if (const std::string too_long = tensor_name_problem(name); !too_long.empty()) return refuse(too_long);
    return keys.back().insert(name).second || refuse("'" + name + "' stands twice");
  }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }
};

Json parse_strictly(std::string_view text) {
  StrictHandler handler;
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) refuse(handler.problem);
  return Json::parse(text.begin(), text.end());
}

// Returns the object after checking that it has exactly these members.
const Json& members(const Json& json, std::initializer_list<const char*> names) {
  if (!json.is_object() || json.size() != names.size()) {
    refuse("expected an object of " + std::to_string(names.size()) + " members");
  }
  for (const char* name : names) {
    if (!json.contains(name)) refuse(std::string("'") + name + "' is missing");
  }
  return json;
}

uint64_t word_of(const Json& json) {
  if (!json.is_number_unsigned()) refuse("expected a whole number, not negative");
  return json.get<uint64_t>();
}

int64_t count_of(const Json& json) {
  const std::optional<int64_t> count = json_count(json);
  if (!count) refuse("expected a whole number from 0 to 2^63 - 1");
  return *count;
}

std::string text_of(const Json& json) {
  if (!json.is_string()) refuse("expected a text");
  return json.get<std::string>();
}

const Json& list_of(const Json& json) {
  if (!json.is_array()) refuse("expected a list");
  return json;
}

Json to_json(const StoredFile& file) { return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}}; }

StoredFile file_from(const Json& json) {
  members(json, {"name", "bytes", "sha256"});
  return {text_of(json["name"]), static_cast<uint64_t>(count_of(json["bytes"])), text_of(json["sha256"])};
}

Json to_json(const std::map<std::string, StoredTensor>& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json pieces = Json::array();  // [file, offset, count]
    for (const StoredPiece& piece : tensor.pieces) pieces.push_back({piece.file, piece.offset, piece.count});
    json[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
  }
  return json;
}

std::map<std::string, StoredTensor> tensors_from(const Json& json) {
  if (!json.is_object()) refuse("'tensors' is no object");
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, value] : json.items()) {
    members(value, {"dtype", "shape", "pieces"});
    StoredTensor& tensor = tensors[name];
    tensor.dtype = text_of(value["dtype"]);
    if (!bytes_of_dtype(tensor.dtype)) refuse(name + " has the unknown dtype " + printable_start(tensor.dtype));
    for (const Json& extent : list_of(value["shape"])) tensor.shape.push_back(count_of(extent));
    for (const Json& piece : list_of(value["pieces"])) {
      if (list_of(piece).size() != 3) refuse("a piece of " + name + " is not [file, offset, count]");
      tensor.pieces.push_back({count_of(piece[0]), count_of(piece[1]), count_of(piece[2])});
    }
  }
  return tensors;
}

Json to_json(const std::map<std::string, ContentSum>& sums) {
  Json json = Json::object();  // the two halves of each sum
  for (const auto& [name, sum] : sums) json[name] = {sum.low, sum.high};
  return json;
}

std::map<std::string, ContentSum> sums_from(const Json& json) {
  if (!json.is_object()) refuse("'sums' is no object");
  std::map<std::string, ContentSum> sums;
  for (const auto& [name, halves] : json.items()) {
    if (list_of(halves).size() != 2) refuse("the sum of " + name + " is not [low, high]");
    sums[name] = {word_of(halves[0]), word_of(halves[1])};
  }
  return sums;
}

// Returns the problem with the pieces, or an empty text.
std::string cover_problem(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(count, extent, &count)) return "the shape of " + name + " overflows 64 bits";
    }
    int64_t covered = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.file < 0 || piece.file >= static_cast<int64_t>(manifest.files.size())) {
        return name + " names file " + std::to_string(piece.file) + " of " + std::to_string(manifest.files.size());
      }
      if (piece.offset != covered) {
        return name + ": a piece begins at element " + std::to_string(piece.offset) + ", expected " +
               std::to_string(covered);
      }
      if (__builtin_add_overflow(covered, piece.count, &covered)) return name + ": a piece ends above 2^63";
    }
    if (covered != count) {
      return name + ": the pieces have " + std::to_string(covered) + " elements, the tensor " + std::to_string(count);
    }
  }
  return "";
}

}  // namespace

const char* best_weights(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.ends_with(kAverage)) return kAverage;
  }
  return kMaster;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::string to_text(const Manifest& manifest) {
  Json files = Json::array();
  for (const StoredFile& file : manifest.files) files.push_back(to_json(file));
  // One member per line, in this order, for people who open the file.
  const std::string text = "{\n\"format\": " + Json(kFormat).dump() + ",\n\"run\": " + Json(manifest.run).dump() +
                           ",\n\"step\": " + std::to_string(manifest.step) +
                           ",\n\"state\": " + Json(manifest.state).dump() + ",\n\"files\": " + files.dump() +
                           ",\n\"tensors\": " + to_json(manifest.tensors).dump();
  return text + std::string(kHashLine) + sha256(text) + std::string(kEnd);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  try {
    const size_t tail = kHashLine.size() + 64 + kEnd.size();
    if (text.size() < tail) refuse("ends too early");
    const std::string_view body = text.substr(0, text.size() - tail);
    if (text.substr(body.size()) != std::string(kHashLine) + sha256(body) + std::string(kEnd)) {
      refuse("does not have the hash that its last line says");
    }
    const Json json = parse_strictly(text);
    if (json.is_object() && json.contains("format") && json["format"] != kFormat) {
      throw Error(ExitCode::storage, path + ": has the format '" + printable_start(text_of(json["format"])) +
                                         "', expected '" + kFormat + "'; use the version of Strata that wrote it");
    }
    members(json, {"format", "run", "step", "state", "files", "tensors", "sha256"});
    Manifest manifest{text_of(json["run"]), count_of(json["step"]), text_of(json["state"]), {}, {}};
    for (const Json& file : list_of(json["files"])) {
      manifest.files.push_back(file_from(file));
      // File names cannot lead outside the folder: any other name is refused.
      const std::string expected = rank_file_name(static_cast<int64_t>(manifest.files.size()) - 1);
      if (manifest.files.back().name != expected) {
        refuse("names the file '" + printable_start(manifest.files.back().name) + "', expected '" + expected + "'");
      }
    }
    manifest.tensors = tensors_from(json["tensors"]);
    if (const std::string problem = cover_problem(manifest); !problem.empty()) refuse(problem);
    return manifest;
  } catch (const Damaged& damage) {
    refuse(path + ": " + printable(damage.what()));
  }
}

std::string to_text(const RankReport& report) {
  return Json{{"file", to_json(report.file)}, {"tensors", to_json(report.tensors)}, {"sums", to_json(report.sums)}}
      .dump();
}

RankReport parse_rank_report(std::string_view text) {
  const Json json = parse_strictly(text);
  members(json, {"file", "tensors", "sums"});
  return {file_from(json["file"]), tensors_from(json["tensors"]), sums_from(json["sums"])};
}

Manifest merge_reports(const std::vector<RankReport>& reports) {
  Manifest manifest;
  for (const RankReport& report : reports) {
    for (const auto& [name, tensor] : report.tensors) {
      StoredTensor& whole = manifest.tensors[name];
      if (whole.dtype.empty()) {
        whole = {tensor.dtype, tensor.shape, {}};
      } else if (whole.dtype != tensor.dtype || whole.shape != tensor.shape) {
        throw Error(ExitCode::internal, "ranks disagree on the shape or dtype of " + name);
      }
      for (StoredPiece piece : tensor.pieces) {
        piece.file = static_cast<int64_t>(manifest.files.size());
        whole.pieces.push_back(piece);
      }
    }
    manifest.files.push_back(report.file);
  }
  for (auto& [name, tensor] : manifest.tensors) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
  }
  if (const std::string problem = cover_problem(manifest); !problem.empty()) throw Error(ExitCode::internal, problem);
  return manifest;
}

std::string weights_sha256(const Manifest& manifest, const std::vector<RankReport>& reports) {
  std::vector<ParameterContent> parameters;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!name.ends_with(kMaster)) continue;
    ParameterContent parameter = {name.substr(0, name.size() - std::strlen(kMaster)), tensor.shape, {}};
    for (const RankReport& report : reports) {
      const auto sum = report.sums.find(name);
      if (sum != report.sums.end()) parameter.sum += sum->second;
    }
    parameters.push_back(std::move(parameter));
  }
  return strata::weights_sha256(std::move(parameters));
}

}  // namespace strata::trainer
