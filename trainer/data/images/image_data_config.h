// SPDX-License-Identifier: MIT
// The types of `data:` for images: where images are read from, and how they are augmented.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "configs/limits.h"

namespace strata::trainer {

// Keys that all types of images have.
struct ImageMixingConfig {
  bool flip = false;
  double mixup = 0, cutmix = 0;

  template <class Fields>
  void describe_mixing(Fields& fields) {
    fields.add("flip", flip, "mirror every second training image, in another choice in each epoch");
    fields.add("mixup", mixup,
               "mix training images in pairs, in shares of Beta(mixup, mixup), one for each step; 0: never",
               configs::between(0, 100));
    fields.add("cutmix", cutmix,
               "paste a box of another image into each training image, in shares of Beta(cutmix, cutmix); with mixup, "
               "one of the two in each step; 0: never",
               configs::between(0, 100));
  }
};

// Images that all have the model's image size.
struct SizedImagesConfig : ImageMixingConfig {
  int64_t shift = 0;

  template <class Fields>
  void describe_changes(Fields& fields) {
    describe_mixing(fields);
    fields.add("shift", shift, "move training images by up to so much in both directions", configs::between(0, 1e4),
               "pixels");
  }
};

struct IdxDataConfig : SizedImagesConfig {
  std::string train_images = {}, train_labels = {}, validation_images = {}, validation_labels = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train_images", train_images,
                   "images in the IDX format of MNIST, gzipped or plain: images x height x width, or images x channels "
                   "x height x width");
    fields.require("train_labels", train_labels, "their labels");
    fields.require("validation_images", validation_images, "images to evaluate on");
    fields.require("validation_labels", validation_labels, "their labels");
    describe_changes(fields);
  }
};

struct ImageArraysConfig : SizedImagesConfig {
  std::string train = {}, validation = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train,
                   "safetensors file with the tensors images (uint8, images x channels x height x width) and labels");
    fields.require("validation", validation, "such a file to evaluate on");
    describe_changes(fields);
  }
};

// JPEG and PNG files of any size, in folders or archives.
struct EncodedImagesConfig : ImageMixingConfig {
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
  std::array<double, 2> area = {0.08, 1};
  double crop = 0.875;
  double bad_share = 0.001;
  int64_t threads = 0;

  template <class Fields>
  void describe_decoding(Fields& fields) {
    fields.add("mean", mean, "of red, green and blue, white is 1; grey images take the first", configs::between(0, 1));
    fields.add("deviation", deviation, "by which these are divided", configs::kPositive);
    fields.add("area", area, "least and largest share of a training image that is seen", configs::between(1e-3, 1));
    describe_mixing(fields);
    fields.add("crop", crop, "share of the shorter side that is seen in an evaluation", configs::between(0.1, 1));
    fields.add("bad_share", bad_share, "of the images that may be unreadable; each is named and left out",
               configs::between(0, 1));
    fields.add("threads", threads, "that read and decode, for each rank; 0: as many as compute",
               configs::between(0, 1024));
  }
};

struct ImageFolderConfig : EncodedImagesConfig {
  std::string train = {}, validation = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train, "folder of JPEG and PNG images: a folder for each class, sorted by name");
    fields.require("validation", validation, "folder of the same classes to evaluate on");
    describe_decoding(fields);
  }
};

struct WebDatasetConfig : EncodedImagesConfig {
  std::string train = {}, validation = {};
  int64_t shuffle = 1000;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train,
                   "tar archives of NAME.jpg (or .jpeg, .png) and NAME.cls, the number of the class, side by side; a "
                   "pattern such as data/train-*.tar names several");
    fields.require("validation", validation, "archives to evaluate on");
    fields.add("shuffle", shuffle,
               "samples of an archive that are held in memory, to be seen in an order of their own in each epoch; 1: "
               "as they lie. The archives are in an order of their own in any case",
               configs::between(1, 1e6), "samples");
    describe_decoding(fields);
  }
};

}  // namespace strata::trainer
