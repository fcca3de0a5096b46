// SPDX-License-Identifier: MIT
#include "trainer/tasks/open_images.h"

#include <ATen/Parallel.h>

#include <type_traits>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "trainer/data/images/encoded_images.h"
#include "trainer/data/images/image_folder.h"
#include "trainer/data/images/labeled_images.h"
#include "trainer/data/images/web_dataset.h"

namespace strata::trainer {
namespace {

using modules::ImageSizes;

ImageSets sets_of(const ImageSizes& model, const SizedImagesConfig& data, ImageArrays training,
                  ImageArrays validation) {
  const LabeledImages::Shape shape = {model.channels, model.size, model.classes};
  auto first = std::make_unique<LabeledImages>(std::move(training), shape, Augmentation{data.flip, data.shift});
  auto second = std::make_unique<LabeledImages>(std::move(validation), shape, Augmentation{});
  const std::vector<Normalization> normalization(static_cast<size_t>(model.channels), first->normalization());
  return {std::move(first), std::move(second), normalization, {}};
}

ImageSets open(const ImageSizes& model, const IdxDataConfig& data) {
  return sets_of(model, data, read_idx_images(data.train_images, data.train_labels),
                 read_idx_images(data.validation_images, data.validation_labels));
}

ImageSets open(const ImageSizes& model, const ImageArraysConfig& data) {
  return sets_of(model, data, read_safetensors_images(data.train), read_safetensors_images(data.validation));
}

ImageSets sets_of(const ImageSizes& model, const EncodedImagesConfig& data, std::unique_ptr<ImageFiles> training,
                  std::unique_ptr<ImageFiles> validation) {
  const EncodedImages::Options options = {.channels = model.channels,
                                          .size = model.size,
                                          .area = data.area,
                                          .flip = data.flip,
                                          .share = data.crop,
                                          .threads = data.threads > 0 ? data.threads : at::get_num_threads()};
  ImageSets sets{std::make_unique<EncodedImages>(std::move(training), options),
                 std::make_unique<EncodedImages>(std::move(validation), options),
                 {},
                 data.bad_share};
  for (size_t i = 0; i < static_cast<size_t>(model.channels); ++i) {
    sets.normalization.push_back({data.mean.at(i), data.deviation.at(i)});
  }
  return sets;
}

ImageSets open(const ImageSizes& model, const ImageFolderConfig& data) {
  auto training = std::make_unique<ImageFolder>(data.train, model.classes);
  auto validation = std::make_unique<ImageFolder>(data.validation, *training);
  return sets_of(model, data, std::move(training), std::move(validation));
}

ImageSets open(const ImageSizes& model, const WebDatasetConfig& data) {
  return sets_of(model, data, std::make_unique<WebDataset>(data.train, model.classes, data.shuffle),
                 std::make_unique<WebDataset>(data.validation, model.classes, /*shuffle=*/1));
}

}  // namespace

ImageSets open_images(const ImageSizes& model, const DataConfig& data) {
  const auto open_it = [&]<class Data>(const Data& images) -> ImageSets {
    if constexpr (std::is_base_of_v<ImageDataConfig, Data>) return open(model, images);
    throw Error(ExitCode::internal, "a configuration was not checked: its data are no images");
  };
  return std::visit(open_it, data.type);
}

}  // namespace strata::trainer
