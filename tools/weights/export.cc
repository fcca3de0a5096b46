// SPDX-License-Identifier: MIT
// Writes the weights of a checkpoint as whole tensors into safetensors files, with Strata's names or as a folder
// of Hugging Face or timm.
#include <ATen/ops/empty.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/run_program.h"
#include "tools/hf/config.h"
#include "tools/hf/names.h"
#include "tools/hf/timm.h"
#include "tools/programs.h"
#include "tools/weights/carried_files.h"
#include "tools/weights/checkpoint_weights.h"
#include "tools/weights/pruned_weights.h"
#include "tools/weights/weights_writer.h"
#include "trainer/checkpoint/checkpoint_loader.h"
#include "trainer/config/load_config.h"
#include "trainer/data/images/labeled_images.h"
#include "trainer/data/images/normalization.h"

namespace strata {
namespace {

using tools::Weight;
using trainer::FoundCheckpoint;

constexpr uint64_t kLargestTokenizer = 100'000'000;  // a tokenizer with 260,000 words has 33 MB

// The fp32 weights of a checkpoint or their moving average, pruned as the run prunes them. The other tensors of the
// optimizer are not exported.
struct Source {
  const FoundCheckpoint& found;
  const std::string state;  // suffix of parameter names: /master, /average
  const tools::PrunedWeights pruned;

  // Reads some rows of a parameter, as one row of elements.
  at::Tensor read(const std::string& name, const std::vector<int64_t>& shape, int64_t first, int64_t count) const {
    const bool is_whole = pruned.sees_whole(name);
    const at::Tensor data = at::empty({is_whole ? trainer::element_count(shape) : count}, at::kFloat);
    read_pieces(found, {{name + state, shape, is_whole ? 0 : first, data}});
    if (!is_whole) return pruned(name, data);
    return pruned(name, data.view(shape)).flatten().narrow(0, first, count);
  }
};

std::vector<Weight> weights_of(const Source& source) {
  std::vector<Weight> weights;
  for (const auto& [stored, tensor] : source.found.manifest.tensors) {
    if (!stored.ends_with(source.state)) continue;
    if (tensor.dtype != "F32") {
      throw Error(ExitCode::internal, source.found.path + ": " + stored + " is " + tensor.dtype + ", expected F32");
    }
    const std::string name = stored.substr(0, stored.size() - source.state.size());
    weights.push_back({name, tensor.shape, [&source, name, shape = tensor.shape] {
                         return source.read(name, shape, 0, trainer::element_count(shape));
                       }});
  }
  return weights;
}

template <class Model>
std::vector<Weight> hf_weights_of(const Source& source, const Model& model) {
  std::vector<Weight> weights;
  for (const hf::Parameter& parameter : hf::parameters(model)) {
    const int64_t columns = trainer::element_count(parameter.shape) / parameter.shape[0];
    int64_t row = 0;
    for (const hf::FileTensor& part : parameter.parts) {
      weights.push_back({part.name, part.shape, [&source, parameter, part, row, columns] {
                           const at::Tensor values =
                               source.read(parameter.name, parameter.shape, row * columns, part.rows * columns);
                           if (parameter.added != 0) return values.sub(parameter.added);
                           if (!parameter.transposed) return values;
                           return values.view({part.rows, columns}).t().contiguous();
                         }});
      row += part.rows;
    }
  }
  return weights;
}

struct Request {
  std::string run, folder, format = "strata", weights = "best", dtype = "float32";
  std::optional<int64_t> step;
  uint64_t file_bytes = tools::kDefaultFileBytes;

  at::ScalarType type() const {
    if (dtype == "float32") return at::kFloat;
    return dtype == "float16" ? at::kHalf : at::kBFloat16;
  }
};

// Returns the normalization and the crop of the images that the model was trained on.
hf::PixelValues pixels_of(const trainer::EncodedImagesConfig& data, int64_t channels) {
  return {{data.mean.begin(), data.mean.begin() + channels},
          {data.deviation.begin(), data.deviation.begin() + channels},
          data.crop};
}

hf::PixelValues pixels_of(const std::vector<uint8_t>& training_pixels, int64_t channels) {
  const auto [mean, deviation] = trainer::normalization_of(training_pixels);
  const auto count = static_cast<size_t>(channels);
  return {std::vector<double>(count, mean), std::vector<double>(count, deviation)};
}

hf::PixelValues pixels_of(const trainer::IdxDataConfig& data, int64_t channels) {
  return pixels_of(trainer::read_idx_images(data.train_images, data.train_labels).pixels, channels);
}

hf::PixelValues pixels_of(const trainer::ImageArraysConfig& data, int64_t channels) {
  return pixels_of(trainer::read_safetensors_images(data.train).pixels, channels);
}

std::string config_for(const Request& request, const modules::TransformerConfig& model, const trainer::DataConfig&) {
  return hf::write_config(model, request.dtype);
}

std::string config_for(const Request&, const modules::VisionTransformerConfig& model, const trainer::DataConfig& data) {
  const auto write = [&]<class Data>(const Data& images) -> std::string {
    if constexpr (std::is_base_of_v<trainer::ImageDataConfig, Data>) {
      return hf::write_config(model, pixels_of(images, model.channels));
    }
    throw Error(ExitCode::internal, "a configuration was not checked: its data are no images");
  };
  return std::visit(write, data.type);
}

template <class Model>
std::string export_to_others(const Request& request, const Source& source) {
  const auto config = trainer::load_trainer_config(request.run + "/resolved.yaml", {}).config;
  const auto* model = std::get_if<Model>(&config.model.type);
  if (model == nullptr) {
    throw Error(ExitCode::configuration, "--format " + request.format + " does not fit the model of " + request.run +
                                             ": hf is for language models, timm for vision transformers");
  }
  const std::string& imported = config.checkpoint.initial_weights;
  const std::string text = tools::with_special_tokens(config_for(request, *model, config.data), imported);
  const std::string written =
      write_weights(request.folder, hf_weights_of(source, *model), request.file_bytes, request.type());
  replace_file(request.folder + "/config.json", text);
  const std::string tokenizer = request.run + "/tokenizer.json";  // exists if the data of the run had one
  if (std::filesystem::exists(tokenizer)) {
    replace_file(request.folder + "/tokenizer.json", read_text_file(tokenizer, kLargestTokenizer));
  }
  if (!imported.empty()) tools::add_carried_files(imported, request.folder);
  return written;
}

tools::PrunedWeights pruned_weights(const std::string& run, int64_t step) {
  const std::string resolved = run + "/resolved.yaml";
  if (std::filesystem::exists(resolved)) {
    return {trainer::load_trainer_config(resolved, {trainer::kNoFault}).config, step};
  }
  std::fprintf(stderr, "warning: there is no %s, so weights are exported as dense ones\n", resolved.c_str());
  return {};
}

void export_weights(const Request& request) {
  const FoundCheckpoint found = tools::checkpoint_of_run(request.run, request.step);
  const Source source = {found, request.weights == "trained" ? trainer::kMaster : best_weights(found.manifest),
                         pruned_weights(request.run, found.manifest.step)};
  std::string written;
  if (request.format == "strata") {
    written = write_weights(request.folder, weights_of(source), request.file_bytes, request.type());
  } else if (request.format == "hf") {
    written = export_to_others<modules::TransformerConfig>(request, source);
  } else {
    written = export_to_others<modules::VisionTransformerConfig>(request, source);
  }
  std::printf("step %lld: %s\n", static_cast<long long>(found.manifest.step), written.c_str());
}

}  // namespace
}  // namespace strata

int strata::programs::export_main(int count, char** arguments) {
  CLI::App app("Writes the weights of a run as whole tensors into FOLDER/model.safetensors.", "export");
  strata::Request request;
  app.add_option("RUN", request.run, "folder of the run")->required();
  app.add_option("FOLDER", request.folder, "where to write; made when it does not exist")->required();
  app.add_option("--format", request.format,
                 "strata: our names; hf: a folder that Hugging Face's transformers opens; timm: one that timm opens")
      ->check(CLI::IsMember({"strata", "hf", "timm"}))
      ->capture_default_str();
  app.add_option("--weights", request.weights,
                 "best: the moving average if the run kept one; trained: the weights themselves")
      ->check(CLI::IsMember({"best", "trained"}))
      ->capture_default_str();
  app.add_option("--dtype", request.dtype,
                 "of the tensors; bfloat16 and float16 have half the bytes, and round fp32 weights")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--step", request.step, "of the checkpoint; otherwise the newest that is whole");
  app.add_option("--file-bytes", request.file_bytes,
                 "above which the weights are spread over several files with an index")
      ->capture_default_str();
  return strata::run_program(app, count, arguments, [&] { strata::export_weights(request); });
}
