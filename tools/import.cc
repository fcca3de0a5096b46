// SPDX-License-Identifier: MIT
// Turns a folder of Hugging Face's GPT-2 or Llama models into weights under our names, and says which `model:` they
// are.
#include <ATen/ops/cat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "configs/errors.h"
#include "tools/guarded.h"
#include "tools/hf/config.h"
#include "tools/hf/names.h"
#include "tools/weights_writer.h"
#include "trainer/checked_file.h"
#include "trainer/weights_folder.h"

namespace strata {
namespace {

using trainer::WeightsFolder;

constexpr uint64_t kLargestConfig = 1'000'000;

// GPT-2's prefix may be missing.
std::string name_in(const WeightsFolder& folder, const std::string& name) {
  if (folder.find(name) == nullptr && name.starts_with(hf::kGpt2Prefix)) return name.substr(sizeof hf::kGpt2Prefix - 1);
  return name;
}

// All that does not fit, at once: a parameter without a tensor or of another shape, a tensor without a parameter.
void check(const WeightsFolder& folder, const std::vector<hf::Parameter>& parameters, bool tied) {
  std::string problems;
  std::set<std::string> used;
  for (const hf::Parameter& parameter : parameters) {
    for (const hf::Part& part : parameter.parts) {
      const std::string name = name_in(folder, part.name);
      used.insert(name);
      const trainer::SafetensorsEntry* entry = folder.find(name);
      if (entry == nullptr) {
        problems += "\n  " + part.name + " is missing";
      } else if (entry->shape != part.shape) {
        problems += "\n  " + name + " has another shape than config.json says";
      }
    }
  }
  for (const std::string& name : folder.names()) {
    if (used.contains(name) || hf::is_redundant(name, tied)) continue;
    problems += "\n  " + trainer::printable(name) + " is no tensor of this model";
  }
  if (!problems.empty()) throw Error(ExitCode::storage, folder.path() + ":" + problems);
}

at::Tensor values_of(const WeightsFolder& folder, const hf::Parameter& parameter) {
  std::vector<at::Tensor> parts;
  for (const hf::Part& part : parameter.parts) {
    int64_t elements = 1;
    for (const int64_t extent : part.shape) elements *= extent;
    const at::Tensor values = folder.read(name_in(folder, part.name), 0, elements).view(part.shape);
    parts.push_back(parameter.transposed ? values.t().contiguous() : values);
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

void import_weights(const std::string& from, const std::string& to, uint64_t file_bytes) {
  const std::string config_path = from + "/config.json";
  const auto model = hf::read_config(trainer::read_text_file(config_path, kLargestConfig), config_path);
  const WeightsFolder folder(from);
  const auto parameters = hf::parameters(model);
  check(folder, parameters, model.tied);
  std::vector<tools::Weight> weights;
  for (const hf::Parameter& parameter : parameters) {
    weights.push_back({parameter.name, parameter.shape, [&folder, parameter] { return values_of(folder, parameter); }});
  }
  const std::string written = write_weights(to, std::move(weights), file_bytes);
  const std::string section = hf::model_section(model);
  trainer::replace_file(to + "/model.yaml", section);
  std::printf("%s\nto train from them (%s/model.yaml has the first line):\n%scheckpoint: {initial_weights: %s}\n",
              written.c_str(), to.c_str(), section.c_str(), to.c_str());
}

}  // namespace
}  // namespace strata

int main(int count, char** arguments) {
  CLI::App app("Turns a folder of Hugging Face's GPT-2 or Llama models into weights that a run can start from.",
               "import");
  std::string from, to;
  uint64_t file_bytes = strata::tools::kDefaultFileBytes;
  app.add_option("HF_FOLDER", from, "with config.json and model.safetensors, or its index and files")->required();
  app.add_option("FOLDER", to, "where to write; made when it does not exist")->required();
  app.add_option("--file-bytes", file_bytes, "above which the weights are spread over several files with an index")
      ->capture_default_str();
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(strata::ExitCode::configuration);
  }
  return strata::tools::guarded([&] { strata::import_weights(from, to, file_bytes); });
}
