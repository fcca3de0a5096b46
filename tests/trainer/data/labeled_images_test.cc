// SPDX-License-Identifier: MIT
#include "trainer/data/images/labeled_images.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/std.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/errors.h"
#include "tests/trainer/data/idx_files.h"

namespace strata::trainer {
namespace {

constexpr int64_t kCount = 50, kSize = 6, kClasses = 10;

LabeledImages images(const Augmentation& augmentation = {}) {
  static const std::string path = write_images("set", kCount, kSize, kClasses);
  return LabeledImages(read_idx_images(path + "-images", path + "-labels"), {1, kSize, kClasses}, augmentation);
}

// Returns all images in the order of the file.
Tensor all_images() { return images().evaluation_batch(0, kCount).images; }

// Returns the image of the file that each row is; -1: none.
std::vector<int64_t> places_of(const Tensor& rows, const Tensor& among) {
  std::vector<int64_t> places;
  for (int64_t row = 0; row < rows.size(0); ++row) {
    places.push_back(-1);
    for (int64_t i = 0; i < among.size(0); ++i) {
      if (at::equal(rows[row], among[i])) places.back() = i;
    }
  }
  return places;
}

TEST(LabeledImages, AreEvaluatedInOrder) {
  const auto [pixels, labels] = images().evaluation_batch(10, 3);
  EXPECT_EQ(pixels.sizes(), (at::IntArrayRef{3, 1, kSize, kSize}));
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(labels[row].item<int64_t>(), row);
    EXPECT_EQ(pixels[row][0][1][2].item<int64_t>(), ((10 + row) * 36 + 8) * 7 % 256);
  }
  EXPECT_THROW(images().evaluation_batch(kCount, 1), Error);
}

TEST(LabeledImages, HaveTheMeanAndDeviationOfAllPixels) {
  const Normalization normalization = images().normalization();
  const Tensor all = all_images().to(at::kDouble) / 255;
  EXPECT_NEAR(normalization.mean, all.mean().item<double>(), 1e-12);
  EXPECT_NEAR(normalization.deviation, at::std(all, /*unbiased=*/true).item<double>(), 1e-12);
}

TEST(LabeledImages, AnEpochVisitsEachImageOnceInAnOrderOfItsOwn) {
  const LabeledImages set = images();
  const Tensor all = all_images();
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const auto [pixels, labels] = set.training_batch(/*seed=*/1, epoch * kCount, kCount);
    const std::vector<int64_t> places = places_of(pixels, all);
    for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(labels[i].item<int64_t>(), places[i] % kClasses);
    EXPECT_EQ(std::set<int64_t>(places.begin(), places.end()).size(), static_cast<size_t>(kCount));
    EXPECT_FALSE(std::set<int64_t>(places.begin(), places.end()).contains(-1));
    orders.insert(places);
  }
  EXPECT_EQ(orders.size(), 5u);
  EXPECT_FALSE(at::equal(set.training_batch(1, 0, 10).images, set.training_batch(2, 0, 10).images));
}

TEST(LabeledImages, BatchesDoNotDependOnHowTheyAreCut) {
  const LabeledImages set = images({.flip = true, .shift = 2});
  const ImageBatch whole = set.training_batch(3, 40, 24);  // crosses the end of an epoch
  std::vector<Tensor> parts;
  for (int64_t first = 40; first < 64; first += 6) {
    parts.push_back(set.training_batch(3, first, 6).images);
  }
  EXPECT_TRUE(at::equal(at::cat(parts), whole.images));
}

TEST(LabeledImages, AreMirroredInHalfOfTheCases) {
  const LabeledImages set = images({.flip = true});
  const Tensor all = all_images(), mirrored = at::flip(all, {3});
  int64_t flipped = 0;
  std::vector<bool> first_epoch, second_epoch;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<bool>& choices = epoch == 0 ? first_epoch : second_epoch;
    choices.resize(kCount);
    const Tensor seen = set.training_batch(1, epoch * kCount, kCount).images;
    const std::vector<int64_t> as_they_are = places_of(seen, all), turned = places_of(seen, mirrored);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE((as_they_are[i] >= 0) != (turned[i] >= 0));
      if (turned[i] >= 0) choices[turned[i]] = true, ++flipped;
    }
  }
  EXPECT_GT(flipped, 30);  // 30 of 100; the bound is 4 deviations from the mean
  EXPECT_LT(flipped, 70);
  EXPECT_NE(first_epoch, second_epoch);
}

TEST(LabeledImages, AreShiftedAndBlackComesIn) {
  const Tensor all = all_images(), seen = images({.shift = 1}).training_batch(1, 0, kCount).images;
  std::set<std::pair<int64_t, int64_t>> offsets;
  for (int64_t down = -1; down <= 1; ++down) {
    for (int64_t right = -1; right <= 1; ++right) {
      Tensor moved = at::zeros_like(all);
      const int64_t rows = kSize - std::abs(down), columns = kSize - std::abs(right);
      moved.narrow(2, std::max<int64_t>(down, 0), rows)
          .narrow(3, std::max<int64_t>(right, 0), columns)
          .copy_(all.narrow(2, std::max<int64_t>(-down, 0), rows).narrow(3, std::max<int64_t>(-right, 0), columns));
      for (const int64_t place : places_of(seen, moved)) {
        if (place >= 0) offsets.insert({down, right});
      }
    }
  }
  EXPECT_EQ(offsets.size(), 9u);
}

TEST(LabeledImages, ThatDoNotFitAreRefused) {
  const std::string path = write_images("good", 20, 6, 10), other = write_images("other", 21, 6, 10);
  const auto refusal = [](const std::string& images_path, const std::string& labels_path, int64_t size,
                          int64_t classes) {
    try {
      LabeledImages(read_idx_images(images_path, labels_path), {1, size, classes}, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      return std::string(error.what());
    }
    ADD_FAILURE() << "was accepted";
    return std::string();
  };
  EXPECT_EQ(refusal(path + "-images", path + "-labels", 7, 10),
            path +
                "-images: holds images of 1 channel, 6 x 6 pixels; model.channels and model.image_size ask for 1 "
                "channel, 7 x 7 pixels");
  EXPECT_EQ(refusal(path + "-images", path + "-labels", 6, 9),
            path + "-labels: label 9 is 9, outside of the 9 classes of the model (model.classes)");
  EXPECT_EQ(refusal(path + "-images", other + "-labels", 6, 10),
            other + "-labels: holds 21 labels for the 20 images of " + path + "-images: they do not belong together");
  EXPECT_NE(refusal(path + "-labels", path + "-labels", 6, 10).find("1 dimensions; expected 3"), std::string::npos);
}

TEST(LabeledImages, MayHaveChannels) {
  const std::string path = write_images("color", 4, 6, 3);
  std::vector<uint8_t> pixels(4 * 2 * 36);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
  std::ofstream(path + "-images", std::ios::binary) << idx_bytes({4, 2, 6, 6}, pixels);
  const auto read = [&] { return read_idx_images(path + "-images", path + "-labels"); };
  const LabeledImages set(read(), {2, 6, 3}, {.flip = true});
  const Tensor all = set.evaluation_batch(0, 4).images;
  EXPECT_EQ(all.sizes(), (at::IntArrayRef{4, 2, 6, 6}));
  EXPECT_EQ(all[1][1][2][3].item<int64_t>(), (72 + 36 + 15) % 256);
  const Tensor seen = set.training_batch(1, 0, 4).images;
  for (int64_t i = 0; i < 4; ++i) {
    const std::vector<int64_t> kept = places_of(seen.narrow(0, i, 1), all);
    EXPECT_TRUE(kept[0] >= 0 || places_of(seen.narrow(0, i, 1), at::flip(all, {3}))[0] >= 0) << i;
  }
  EXPECT_THROW(LabeledImages(read(), {1, 6, 3}, {}), Error);
}

TEST(LabeledImages, HaveTheFingerprintOfTheirContent) {
  const std::string path = write_images("one", 20, 6, 10), copy = write_images("copy", 20, 6, 10);
  const auto fingerprint = [](const std::string& name) {
    return LabeledImages(read_idx_images(name + "-images", name + "-labels"), {1, 6, 10}, {}).fingerprint();
  };
  EXPECT_EQ(fingerprint(path), fingerprint(copy));
  std::vector<uint8_t> pixels(20 * 36), labels(20);
  const std::string blank = write_images("blank", 20, 6, 10);
  std::ofstream(blank + "-images", std::ios::binary) << idx_bytes({20, 6, 6}, pixels);
  EXPECT_NE(fingerprint(blank), fingerprint(path));
  std::ofstream(copy + "-labels", std::ios::binary) << idx_bytes({20}, labels);
  EXPECT_NE(fingerprint(copy), fingerprint(path));
}

// A tensor of a safetensors file.
struct Array {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

std::string write_arrays(const std::string& name, const std::vector<Array>& arrays) {
  std::string header, bytes;
  for (const Array& array : arrays) {
    std::string shape;
    for (const int64_t size : array.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += (header.empty() ? "{\"" : ",\"") + array.name + "\":{\"dtype\":\"" + array.dtype + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(bytes.size()) + "," +
              std::to_string(bytes.size() + array.bytes.size()) + "]}";
    bytes += array.bytes;
  }
  header += "}";
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  const std::string path = testing::TempDir() + name + ".safetensors";
  std::ofstream(path, std::ios::binary) << length << header << bytes;
  return path;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string some_pixels(size_t count) {
  std::string pixels(count, '\0');
  for (size_t i = 0; i < count; ++i) pixels[i] = static_cast<char>(i * 7);
  return pixels;
}

TEST(LabeledImages, ComeFromSafetensorsWithLabelsOfThreeTypes) {
  const Array pixels = {"images", "U8", {3, 2, 4, 4}, some_pixels(96)};
  const std::vector<Array> labels = {{"labels", "I64", {3}, bytes_of<int64_t>({2, 0, 1})},
                                     {"labels", "I32", {3}, bytes_of<int32_t>({2, 0, 1})},
                                     {"labels", "U8", {3}, bytes_of<uint8_t>({2, 0, 1})}};
  for (const Array& array : labels) {
    // The format puts the widest type first.
    const std::vector<Array> order = array.dtype == "U8" ? std::vector{pixels, array} : std::vector{array, pixels};
    const LabeledImages set(read_safetensors_images(write_arrays("good_" + array.dtype, order)), {2, 4, 3}, {});
    const auto [seen, classes] = set.evaluation_batch(0, 3);
    EXPECT_EQ(seen.sizes(), (at::IntArrayRef{3, 2, 4, 4}));
    EXPECT_EQ(seen[2][1][3][2].item<int64_t>(), (64 + 16 + 14) * 7 % 256);
    EXPECT_EQ(classes[0].item<int64_t>(), 2);
    EXPECT_EQ(classes[2].item<int64_t>(), 1);
  }
}

TEST(LabeledImages, FromSafetensorsThatDoNotFitAreRefused) {
  const Array pixels = {"images", "U8", {3, 2, 4, 4}, some_pixels(96)};
  const Array labels = {"labels", "U8", {3}, bytes_of<uint8_t>({2, 0, 1})};
  const auto refusal = [](const std::string& path) {
    try {
      LabeledImages(read_safetensors_images(path), {2, 4, 3}, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with(path + ": ")) << what;
      return what.substr(std::min(path.size() + 2, what.size()));
    }
    ADD_FAILURE() << path << " was accepted";
    return std::string();
  };
  EXPECT_EQ(refusal(write_arrays("no_labels", {pixels})),
            "has no tensor 'labels'; expected I64, I32 or U8, one for each image");
  EXPECT_EQ(refusal(write_arrays("floats", {{"images", "F32", {1, 2, 4, 4}, std::string(128, '\0')}, labels})),
            "the tensor 'images' is F32; expected U8 of images x channels x height x width, none of them 0");
  EXPECT_EQ(refusal(write_arrays("flat", {{"images", "U8", {96}, some_pixels(96)}, labels})),
            "the tensor 'images' is U8 96; expected U8 of images x channels x height x width, none of them 0");
  EXPECT_EQ(refusal(write_arrays("half", {{"labels", "F16", {3}, std::string(6, '\0')}, pixels})),
            "the tensor 'labels' is F16; expected I64, I32 or U8, one for each image");
  EXPECT_NE(refusal(write_arrays("fewer", {pixels, {"labels", "U8", {2}, bytes_of<uint8_t>({2, 0})}}))
                .find("holds 2 labels for the 3 images"),
            std::string::npos);
  EXPECT_EQ(refusal(write_arrays("negative", {{"labels", "I64", {3}, bytes_of<int64_t>({2, -1, 1})}, pixels})),
            "label 1 is -1, outside of the 3 classes of the model (model.classes)");
  const std::string cut = write_arrays("cut", {pixels, labels});
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 1);
  EXPECT_FALSE(refusal(cut).empty());
}

}  // namespace
}  // namespace strata::trainer
