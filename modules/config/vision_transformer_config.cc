// SPDX-License-Identifier: MIT
#include "modules/config/vision_transformer_config.h"

#include <utility>

#include "modules/config/divisors.h"

namespace strata::modules {

VisionSizes sizes_of(VisionSize size) {
  static constexpr std::array<VisionSizes, 5> kSizes = {
      {{0, 0, 0}, {12, 192, 3}, {12, 384, 6}, {12, 768, 12}, {24, 1024, 16}}};
  return kSizes[static_cast<size_t>(size)];
}

void VisionTransformerConfig::fill_from_size() {
  if (size == VisionSize::custom) return;
  const VisionSizes named = sizes_of(size);
  for (const auto& [member, value] : {std::pair{&layers, named.layers},
                                      {&width, named.width},
                                      {&heads, named.heads},
                                      {&image_size, VisionSizes::kImageSize},
                                      {&patch, VisionSizes::kPatch}}) {
    if (*member == 0) *member = value;
  }
}

void check(const VisionTransformerConfig& model, configs::Checks& checks) {
  bool all_given = true;
  for (const auto& [name, value] : {std::pair{"layers", model.layers},
                                    {"width", model.width},
                                    {"heads", model.heads},
                                    {"image_size", model.image_size},
                                    {"patch", model.patch}}) {
    const bool is_given = checks.can_check({name, "size"}) && value > 0;
    if (!is_given && checks.can_check({name, "size"})) {
      checks.fail(name, "expected a number above 0, because size custom names none, got none");
    }
    all_given = all_given && is_given;
  }
  if (!all_given) return;
  if (model.width % model.heads != 0) checks.fail("heads", not_divided("width", model.width, "heads", model.heads));
  if (model.image_size % model.patch != 0) {
    checks.fail("patch", not_divided("image_size", model.image_size, "patch", model.patch));
  } else {
    check_patch(model.channels, model.patch, checks);
  }
}

double flops_per_item(const VisionTransformerConfig& model, const std::vector<ParameterGroup>& groups) {
  const auto tokens = static_cast<double>(model.tokens()), width = static_cast<double>(model.width);
  const double embedding = static_cast<double>(model.patches() * model.channels * model.patch * model.patch) * width;
  const double head = static_cast<double>(model.classes) * width;
  const double matrices = tokens * elements_of_matrices(groups, Role::layer) + embedding + head;
  return 6 * matrices + 12 * tokens * tokens * width * static_cast<double>(model.layers);
}

std::optional<ModelAttention> attention_of(const VisionTransformerConfig& model) {
  return ModelAttention{.layers = model.layers, .head_width = model.head_width(), .positions = model.tokens()};
}

}  // namespace strata::modules
