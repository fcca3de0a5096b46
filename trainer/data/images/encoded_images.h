// SPDX-License-Identifier: MIT
// Images in JPEG and PNG files of any size, which threads decode, crop, resize and flip.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/images/image_files.h"
#include "trainer/data/images/image_set.h"

namespace strata::trainer {

class EncodedImages : public ImageSet {
 public:
  struct Options {
    int64_t channels = 3, size = 224;
    std::array<double, 2> area = {0.08, 1};  // range of the share of a training image that is cropped
    bool flip = false;
    double share = 0.875;  // share of the shorter side that is kept in an evaluation
    int64_t threads = 1;
  };
  EncodedImages(std::unique_ptr<ImageFiles> files, const Options& options)
      : files_(std::move(files)), options_(options) {}

  int64_t count() const override { return files_->count(); }
  ImageBatch training_batch(uint64_t seed, int64_t first_sample, int64_t count) const override;
  std::string fingerprint() const override { return files_->fingerprint(); }
  std::vector<std::string> take_bad_images() const override;

 private:
  ImageBatch stored_images(int64_t first_image, int64_t count) const override;

  struct Choice {
    int64_t image = 0;
    uint64_t key = 0;  // key of all random choices for this image
    bool training = false;
  };
  ImageBatch read(const std::vector<Choice>& choices) const;
  void show(const Choice& choice, uint8_t* square) const;  // square <- [size, size, C]
  void note_bad(int64_t image, const std::string& reason) const;

  std::unique_ptr<ImageFiles> files_;
  Options options_;

  mutable std::mutex mutex_;  // guards the members below
  mutable std::set<int64_t> bad_;
  mutable std::vector<std::string> not_reported_;
};

}  // namespace strata::trainer
