// SPDX-License-Identifier: MIT
// Converts a folder of a language model of Hugging Face, or of timm's vision transformers, into weights with
// Strata's names, and prints their `model:` section.
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/run_program.h"
#include "base/text/printable.h"
#include "tools/hf/config.h"
#include "tools/hf/names.h"
#include "tools/hf/timm.h"
#include "tools/programs.h"
#include "tools/weights/carried_files.h"
#include "tools/weights/weights_writer.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata {
namespace {

using trainer::shape_text;
using trainer::WeightsFolder;

constexpr uint64_t kLargestConfig = 1'000'000;

// GPT-2's prefix is optional.
std::string name_in(const WeightsFolder& folder, const std::string& name) {
  if (folder.find(name) == nullptr && name.starts_with(hf::kGpt2Prefix)) return name.substr(sizeof hf::kGpt2Prefix - 1);
  return name;
}

// Reports all errors at once: a parameter without a tensor, a tensor without a parameter, a wrong shape, or a type that
// is no float.
void check(const WeightsFolder& folder, const std::vector<hf::Parameter>& parameters, bool tied) {
  std::string problems;
  std::set<std::string> used;
  for (const hf::Parameter& parameter : parameters) {
    for (const hf::FileTensor& part : parameter.parts) {
      const std::string name = name_in(folder, part.name);
      used.insert(name);
      const trainer::SafetensorsEntry* entry = folder.find(name);
      if (entry == nullptr) {
        problems += "\n  " + part.name + " is missing";
      } else if (entry->shape != part.shape) {
        problems += "\n  " + name + " has another shape than config.json says: expected " + shape_text(part.shape) +
                    ", got " + shape_text(entry->shape);
      } else if (const std::string problem = trainer::what_is_no_float(*entry); !problem.empty()) {
        problems += "\n  " + problem;
      }
    }
  }
  for (const std::string& name : folder.names()) {
    if (used.contains(name) || hf::is_redundant(name, tied)) continue;
    problems += "\n  " + printable(name) + " is no tensor of this model";
  }
  if (!problems.empty()) throw Error(ExitCode::data, folder.path() + ":" + problems);
}

at::Tensor values_of(const WeightsFolder& folder, const hf::Parameter& parameter) {
  std::vector<at::Tensor> parts;
  for (const hf::FileTensor& part : parameter.parts) {
    int64_t elements = 1;
    for (const int64_t extent : part.shape) elements *= extent;
    const at::Tensor values = folder.read(name_in(folder, part.name), 0, elements).view(part.shape);
    parts.push_back(parameter.transposed ? values.t().contiguous() : values);
  }
  const at::Tensor values = parts.size() == 1 ? parts[0] : at::cat(parts);
  return parameter.added == 0 ? values : values.add(parameter.added);
}

struct Request {
  std::string from, to;
  uint64_t file_bytes = tools::kDefaultFileBytes;
  std::optional<int64_t> image_size, classes;  // if they differ from the folder
};

tools::Weight weight_of(const WeightsFolder& folder, const hf::Parameter& parameter) {
  return {parameter.name, parameter.shape, [&folder, parameter] { return values_of(folder, parameter); }};
}

std::vector<tools::Weight> weights_for(const modules::TransformerConfig& model, const WeightsFolder& folder,
                                       const Request& request) {
  if (request.image_size || request.classes) {
    throw Error(ExitCode::configuration, "--image-size and --classes are for vision transformers");
  }
  const auto parameters = hf::parameters(model);
  check(folder, parameters, model.tied);
  std::vector<tools::Weight> weights;
  for (const hf::Parameter& parameter : parameters) weights.push_back(weight_of(folder, parameter));
  return weights;
}

// Resizes learned positions of image patches: fp32 [prefix + from_side^2, D] -> [prefix + to_side^2, D], bicubic with
// antialiasing, as in timm. The prefix, a class token, does not change.
at::Tensor resize_positions(const at::Tensor& positions, int64_t from_side, int64_t to_side) {
  const int64_t prefix = positions.size(0) - from_side * from_side, width = positions.size(1);
  const at::Tensor grid_1DHW =
      positions.slice(0, prefix).reshape({1, from_side, from_side, width}).permute({0, 3, 1, 2});
  const at::Tensor resized_1DHW = at::_upsample_bicubic2d_aa(grid_1DHW, {to_side, to_side}, /*align_corners=*/false);
  const at::Tensor resized = resized_1DHW.permute({0, 2, 3, 1}).reshape({to_side * to_side, width});
  return at::cat({positions.slice(0, 0, prefix), resized}).contiguous();
}

// Writes the requested sizes into `model`. Positions are interpolated for another image size. The head is zeros if the
// number of classes differs.
std::vector<tools::Weight> weights_for(modules::VisionTransformerConfig& model, const WeightsFolder& folder,
                                       const Request& request) {
  const auto stored = hf::parameters(model);
  check(folder, stored, /*tied=*/false);
  const int64_t from_size = model.image_size / model.patch;
  model.image_size = request.image_size.value_or(model.image_size);
  model.classes = request.classes.value_or(model.classes);
  const int64_t to_size = model.image_size / model.patch;
  if (model.image_size % model.patch != 0) {
    throw Error(ExitCode::configuration, "--image-size " + std::to_string(model.image_size) +
                                             " is no multiple of the patches of " + std::to_string(model.patch));
  }
  const auto wanted = hf::parameters(model);
  std::vector<tools::Weight> weights;
  for (size_t i = 0; i < wanted.size(); ++i) {
    weights.push_back(weight_of(folder, stored[i]));
    if (wanted[i].shape == stored[i].shape) continue;
    weights.back().shape = wanted[i].shape;
    if (wanted[i].name == "position.weight") {
      weights.back().values = [&folder, parameter = stored[i], from_size, to_size] {
        return resize_positions(values_of(folder, parameter).view(parameter.shape), from_size, to_size);
      };
    } else {
      weights.back().values = [shape = wanted[i].shape] { return at::zeros(shape, at::kFloat); };
    }
  }
  return weights;
}

void import_weights(const Request& request) {
  const std::string config_path = request.from + "/config.json";
  const std::string config = read_text_file(config_path, kLargestConfig, ExitCode::data);
  hf::ImportedModel model = hf::read_config(config, config_path);
  const std::string pixels = hf::keys_of_pixels(config, config_path);
  const WeightsFolder folder(request.from);
  const auto write = [&](auto& type) {
    const std::string written = write_weights(request.to, weights_for(type, folder, request), request.file_bytes);
    const std::string section = hf::model_section(type);
    replace_file(request.to + "/model.yaml", section);
    tools::keep_carried_files(request.from, request.to);
    std::printf("%s\nto train from them (%s/model.yaml has the first line):\n%scheckpoint: {initial_weights: %s}\n",
                written.c_str(), request.to.c_str(), section.c_str(), request.to.c_str());
    if (!pixels.empty()) std::printf("its images were normalized and cropped so: data: {%s}\n", pixels.c_str());
  };
  std::visit(write, model);
}

}  // namespace
}  // namespace strata

int strata::programs::import_main(int count, char** arguments) {
  CLI::App app(
      "Turns a folder of a language model of Hugging Face (GPT-2, Llama, Mistral, Qwen 2, 2.5 and 3, OLMo 2, Gemma 3) "
      "or "
      "of timm's vision transformers into weights that a run can start from.",
      "import");
  strata::Request request;
  app.add_option("HF_FOLDER", request.from, "with config.json and model.safetensors, or its index and files")
      ->required();
  app.add_option("FOLDER", request.to, "where to write; made when it does not exist")->required();
  app.add_option("--file-bytes", request.file_bytes,
                 "above which the weights are spread over several files with an index")
      ->capture_default_str();
  app.add_option("--image-size", request.image_size, "of a vision transformer: another one, positions are interpolated")
      ->check(CLI::Range(1, 65536));
  app.add_option("--classes", request.classes, "of a vision transformer: other ones, the head starts as zeros")
      ->check(CLI::Range(2, 100'000'000));
  return strata::run_program(app, count, arguments, [&] { strata::import_weights(request); });
}
