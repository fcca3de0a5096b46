// SPDX-License-Identifier: MIT
// Writes the weights of a checkpoint as whole fp32 tensors into safetensors files, under our names or as a folder of
// Hugging Face or of timm.
#include <ATen/ops/empty.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/errors.h"
#include "tools/guarded.h"
#include "tools/hf/config.h"
#include "tools/hf/names.h"
#include "tools/hf/timm.h"
#include "tools/weights_writer.h"
#include "trainer/checked_file.h"
#include "trainer/checkpoint_loader.h"
#include "trainer/data/idx_file.h"
#include "trainer/data/normalization.h"
#include "trainer/load_config.h"

namespace strata {
namespace {

using tools::Weight;
using trainer::FoundCheckpoint;

constexpr std::string_view kMaster = "/master";  // the fp32 weights; the optimizer's tensors stay behind

// Elements of a parameter from a checkpoint.
at::Tensor read(const FoundCheckpoint& found, const std::string& name, const std::vector<int64_t>& shape, int64_t first,
                int64_t count) {
  const trainer::TensorPiece piece = {name + std::string(kMaster), shape, first, at::empty({count}, at::kFloat)};
  read_pieces(found, {piece});
  return piece.data;
}

std::vector<Weight> weights_of(const FoundCheckpoint& found) {
  std::vector<Weight> weights;
  for (const auto& [stored, tensor] : found.manifest.tensors) {
    if (!stored.ends_with(kMaster)) continue;
    if (tensor.dtype != "F32") {
      throw Error(ExitCode::internal, found.path + ": " + stored + " is " + tensor.dtype + ", expected F32");
    }
    const std::string name = stored.substr(0, stored.size() - kMaster.size());
    weights.push_back({name, tensor.shape, [&found, name, shape = tensor.shape] {
                         return read(found, name, shape, 0, trainer::element_count(shape));
                       }});
  }
  return weights;
}

template <class Model>
std::vector<Weight> hf_weights_of(const FoundCheckpoint& found, const Model& model) {
  std::vector<Weight> weights;
  for (const hf::Parameter& parameter : hf::parameters(model)) {
    const int64_t columns = trainer::element_count(parameter.shape) / parameter.shape[0];
    int64_t row = 0;
    for (const hf::Part& part : parameter.parts) {
      weights.push_back({part.name, part.shape, [&found, parameter, part, row, columns] {
                           const at::Tensor values =
                               read(found, parameter.name, parameter.shape, row * columns, part.rows * columns);
                           if (!parameter.transposed) return values;
                           return values.view({part.rows, columns}).t().contiguous();
                         }});
      row += part.rows;
    }
  }
  return weights;
}

struct Request {
  std::string run, folder, format = "strata";
  std::optional<int64_t> step;
  uint64_t file_bytes = tools::kDefaultFileBytes;
};

// What the training images were normalized by.
hf::PixelValues pixels_of(const trainer::DataConfig& data) {
  const auto& files = std::get<trainer::IdxDataConfig>(data.type);
  const auto [mean, deviation] = trainer::normalization_of(trainer::read_idx(files.train_images, 3, 4).values);
  return {mean, deviation};
}

std::string config_for(const modules::TransformerConfig& model, const trainer::DataConfig&) {
  return hf::write_config(model);
}

std::string config_for(const modules::VisionTransformerConfig& model, const trainer::DataConfig& data) {
  return hf::write_config(model, pixels_of(data));
}

template <class Model>
std::string export_to_others(const Request& request, const FoundCheckpoint& found) {
  const auto config = trainer::load_trainer_config(request.run + "/resolved.yaml", {}).config;
  const auto* model = std::get_if<Model>(&config.model.type);
  if (model == nullptr) {
    throw Error(ExitCode::configuration, "--format " + request.format + " does not fit the model of " + request.run +
                                             ": hf is for language models, timm for vision transformers");
  }
  const std::string text = config_for(*model, config.data);
  const std::string written = write_weights(request.folder, hf_weights_of(found, *model), request.file_bytes);
  trainer::replace_file(request.folder + "/config.json", text);
  return written;
}

void export_weights(const Request& request) {
  const auto found = trainer::find_checkpoint(
      {.folder = request.run + "/checkpoints", .required = true, .step = request.step}, trainer::Ranks{});
  for (const std::string& note : found->notes) std::fprintf(stderr, "warning: %s\n", note.c_str());
  std::string written;
  if (request.format == "strata") {
    written = write_weights(request.folder, weights_of(*found), request.file_bytes);
  } else if (request.format == "hf") {
    written = export_to_others<modules::TransformerConfig>(request, *found);
  } else {
    written = export_to_others<modules::VisionTransformerConfig>(request, *found);
  }
  std::printf("step %lld: %s\n", static_cast<long long>(found->manifest.step), written.c_str());
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  CLI::App app("Writes the weights of a run as whole fp32 tensors into FOLDER/model.safetensors.", "export");
  strata::Request request;
  app.add_option("RUN", request.run, "folder of the run")->required();
  app.add_option("FOLDER", request.folder, "where to write; made when it does not exist")->required();
  app.add_option("--format", request.format,
                 "strata: our names; hf: a folder that Hugging Face's transformers opens; timm: one that timm opens")
      ->check(CLI::IsMember({"strata", "hf", "timm"}))
      ->capture_default_str();
  app.add_option("--step", request.step, "of the checkpoint; otherwise the newest that is whole");
  app.add_option("--file-bytes", request.file_bytes,
                 "above which the weights are spread over several files with an index")
      ->capture_default_str();
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(strata::ExitCode::configuration);
  }
  return strata::tools::guarded([&] { strata::export_weights(request); });
}
