// SPDX-License-Identifier: MIT
#include <utility>

#include "base/errors.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/data/images/idx_file.h"
#include "trainer/data/images/labeled_images.h"
#include "trainer/data/refuse_file.h"

namespace strata::trainer {
namespace {

// Called before labels become int64, which takes eight times the memory of bytes.
void check_counts(int64_t images, const std::string& images_from, int64_t labels, const std::string& labels_from) {
  if (images == labels) return;
  refuse_file(labels_from, "holds " + std::to_string(labels) + " labels for the " + std::to_string(images) +
                               " images of " + images_from + ": they do not belong together");
}

// Reads the tensor as numbers of type T, which must be the dtype of `entry`.
template <class T>
std::vector<T> values_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  std::vector<T> values(entry.bytes / sizeof(T));
  file.read(entry, 0, values.data(), entry.bytes);
  return values;
}

template <class T>
std::vector<int64_t> as_labels(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

std::string description_of(const SafetensorsEntry& entry) {
  std::string text = entry.dtype;
  for (size_t i = 0; i < entry.shape.size(); ++i) text += (i > 0 ? " x " : " ") + std::to_string(entry.shape[i]);
  return text;
}

const SafetensorsEntry& find(const SafetensorsFile& file, const std::string& path, const char* name, size_t dimensions,
                             const std::string& expected) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) refuse_file(path, std::string("has no tensor '") + name + "'; expected " + expected);
  if (entry->shape.size() == dimensions && entry->bytes > 0) return *entry;
  refuse_file(path, std::string("the tensor '") + name + "' is " + description_of(*entry) + "; expected " + expected);
}

}  // namespace

ImageArrays read_idx_images(const std::string& images_path, const std::string& labels_path) {
  IdxArray images = read_idx(images_path, 3, 4), labels = read_idx(labels_path, 1, 1);
  check_counts(images.sizes[0], images_path, labels.sizes[0], labels_path);
  return ImageArrays{.images_from = images_path,
                     .labels_from = labels_path,
                     .channels = images.sizes.size() == 4 ? images.sizes[1] : 1,
                     .height = images.sizes[images.sizes.size() - 2],
                     .width = images.sizes.back(),
                     .pixels = std::move(images.values),
                     .labels = as_labels(labels.values)};
}

ImageArrays read_safetensors_images(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    const std::string expected_images = "U8 of images x channels x height x width, none of them 0";
    const SafetensorsEntry& images = find(file, path, "images", 4, expected_images);
    if (images.dtype != "U8")
      refuse_file(path, "the tensor 'images' is " + images.dtype + "; expected " + expected_images);
    const std::string expected_labels = "I64, I32 or U8, one for each image";
    const SafetensorsEntry& labels = find(file, path, "labels", 1, expected_labels);
    check_counts(images.shape[0], path, labels.shape[0], path);
    ImageArrays arrays{.images_from = path,
                       .labels_from = path,
                       .channels = images.shape[1],
                       .height = images.shape[2],
                       .width = images.shape[3],
                       .pixels = values_of<uint8_t>(file, images),
                       .labels = {}};
    if (labels.dtype == "I64") {
      arrays.labels = values_of<int64_t>(file, labels);
    } else if (labels.dtype == "I32") {
      arrays.labels = as_labels(values_of<int32_t>(file, labels));
    } else if (labels.dtype == "U8") {
      arrays.labels = as_labels(values_of<uint8_t>(file, labels));
    } else {
      refuse_file(path, "the tensor 'labels' is " + labels.dtype + "; expected " + expected_labels);
    }
    return arrays;
  } catch (const Error& error) {
    // Errors of the safetensors reader are storage errors for weights and checkpoints; here they are errors of the
    // data.
    if (error.code() != ExitCode::storage) throw;
    throw Error(ExitCode::data, error.what());
  }
}

}  // namespace strata::trainer
