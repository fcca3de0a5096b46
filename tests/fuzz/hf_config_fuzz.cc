// SPDX-License-Identifier: MIT
// Fuzzes config.json of Hugging Face's and timm's folders: the model of an accepted file is written as one line, and
// its layers as another.
#include <algorithm>
#include <variant>

#include "tests/fuzz/harness/target.h"
#include "tools/hf/config.h"
#include "tools/hf/timm.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "config.json";

void parse(std::string_view bytes) {
  const hf::ImportedModel model = hf::read_config(std::string(bytes), kFile);
  const std::string section = std::visit([](const auto& type) { return hf::model_section(type); }, model);
  const auto lines = std::count(section.begin(), section.end(), '\n');
  if (std::holds_alternative<modules::VisionTransformerConfig>(model)) hf::keys_of_pixels(std::string(bytes), kFile);
  require(lines == 1 || (lines == 2 && section.find("\nlayers: [") != std::string::npos), "the model is not one line");
}

}  // namespace

const Target kTarget = {
    .refusal = ExitCode::data,
    .file = kFile,
    .parse = parse,
    .plain_messages = false,
    .words = {"true", "\"rope_scaling\":", "\"model_type\":", "\"architecture\":", "\"model_args\":", kDeep}};

}  // namespace strata::fuzz
