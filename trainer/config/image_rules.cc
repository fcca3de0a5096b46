// SPDX-License-Identifier: MIT
// Rules between a model that takes images and the rest of the run.
#include <string>
#include <type_traits>
#include <variant>

#include "trainer/config/model_rules.h"

namespace strata::trainer {
namespace {

void check_images(int64_t micro_batch, const ImageDataConfig& data, configs::Checks& checks) {
  if (!checks.can_check({"micro_batch", "data.mixup", "data.cutmix"})) return;
  if ((data.mixup > 0 || data.cutmix > 0) && micro_batch % 2 != 0) {
    checks.fail("micro_batch",
                "expected an even number, because data.mixup and data.cutmix take images in pairs, got " +
                    std::to_string(micro_batch));
  }
}

void check_images(const modules::ImageSizes& sizes, const SizedImagesConfig& data, configs::Checks& checks) {
  if (checks.can_check({"data.shift", "model.image_size"}) && sizes.size > 0 && data.shift >= sizes.size) {
    checks.fail("data.shift", "expected less than model.image_size " + std::to_string(sizes.size) + ", got " +
                                  std::to_string(data.shift));
  }
}

void check_images(const modules::ImageSizes& sizes, const EncodedImagesConfig& data, configs::Checks& checks) {
  if (checks.can_check({"data.area"}) && data.area[0] > data.area[1]) {
    checks.fail("data.area", "expected the smaller share first");
  }
  if (checks.can_check({"model.channels"}) && sizes.channels != 1 && sizes.channels != 3) {
    checks.fail("model.channels",
                "expected 1 (gray) or 3, because the data are image files, got " + std::to_string(sizes.channels));
  }
}

}  // namespace

void check_image_model(const TrainerConfig& config, const modules::ImageSizes& sizes, configs::Checks& checks) {
  check_is_no_transformer(config, checks);
  check_evaluates_all(config.evaluation, "images", checks);
  const std::string type = config.model.type_name();
  check_has_no_fused_head(config.kernels, "the head of a " + type + " has a bias", checks);
  if (!checks.can_check({"data.type"})) return;
  const auto check_data = [&]<class Data>(const Data& data) {
    if constexpr (std::is_base_of_v<ImageDataConfig, Data>) {
      check_images(config.micro_batch, data, checks);
      check_images(sizes, data, checks);
    }
  };
  std::visit(check_data, config.data.type);
}

}  // namespace strata::trainer
