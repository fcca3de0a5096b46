// SPDX-License-Identifier: MIT
#include "modules/config/mixer_config.h"

#include "modules/config/divisors.h"

namespace strata::modules {

void check(const MixerConfig& model, configs::Checks& checks) {
  if (!checks.can_check({"image_size", "patch"})) return;
  if (model.image_size % model.patch != 0) {
    checks.fail("patch", not_divided("image_size", model.image_size, "patch", model.patch));
  } else {
    check_patch(model.channels, model.patch, checks);
  }
}

double flops_per_item(const MixerConfig& model, const std::vector<ParameterGroup>& /*groups*/) {
  const auto patches = static_cast<double>(model.patches()), width = static_cast<double>(model.width);
  const double embedding = patches * static_cast<double>(model.channels * model.patch * model.patch) * width;
  const double over_patches = width * 2 * patches * static_cast<double>(model.token_hidden_width());
  const double over_channels = patches * 2 * width * static_cast<double>(model.feed_forward_or_default());
  const double head = width * static_cast<double>(model.classes);
  return 6 * (embedding + static_cast<double>(model.layers) * (over_patches + over_channels) + head);
}

}  // namespace strata::modules
