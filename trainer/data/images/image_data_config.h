// SPDX-License-Identifier: MIT
// The types of `data:` for images: where images are read from, and how they are augmented.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "configs/limits.h"

namespace strata::trainer {

// Keys that all types of images have.
struct ImageDataConfig {
  bool flip = false;
  double mixup = 0, cutmix = 0;

  template <class Fields>
  void describe_mixing(Fields& fields) {
    fields.add("flip", flip, "flip each training image horizontally with probability 0.5, drawn anew in each epoch");
    fields.add("mixup", mixup,
               "alpha of mixup: pairs of training images are mixed with a share from Beta(mixup, mixup), drawn once "
               "per step; 0: no mixup",
               configs::between(0, 100));
    fields.add("cutmix", cutmix,
               "alpha of cutmix: a box of another image is pasted into each training image, with a share from "
               "Beta(cutmix, cutmix), drawn once per step; if mixup is set too, each step uses one of the two; 0: no "
               "cutmix",
               configs::between(0, 100));
  }
};

// Images that all have the model's image size.
struct SizedImagesConfig : ImageDataConfig {
  int64_t shift = 0;

  template <class Fields>
  void describe_changes(Fields& fields) {
    describe_mixing(fields);
    fields.add("shift", shift, "largest random shift of a training image in both directions; 0: no shift",
               configs::between(0, 1e4), "pixels");
  }
};

struct IdxDataConfig : SizedImagesConfig {
  std::string train_images = {}, train_labels = {}, validation_images = {}, validation_labels = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train_images", train_images,
                   "training images in the IDX format of MNIST, gzipped or plain: images x height x width, or images x "
                   "channels x height x width");
    fields.require("train_labels", train_labels, "labels of these images, in the IDX format");
    fields.require("validation_images", validation_images, "images for evaluations, in the IDX format");
    fields.require("validation_labels", validation_labels, "labels of these images, in the IDX format");
    describe_changes(fields);
  }
};

struct ImageArraysConfig : SizedImagesConfig {
  std::string train = {}, validation = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require(
        "train", train,
        "safetensors file to train on, with the tensors images (uint8, images x channels x height x width) and labels");
    fields.require("validation", validation, "safetensors file for evaluations, with the same tensors");
    describe_changes(fields);
  }
};

// JPEG and PNG files of any size, in folders or archives.
struct EncodedImagesConfig : ImageDataConfig {
  std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
  std::array<double, 2> area = {0.08, 1};
  double crop = 0.875;
  double bad_share = 0.001;
  int64_t threads = 0;

  template <class Fields>
  void describe_decoding(Fields& fields) {
    fields.add(
        "mean", mean,
        "mean of red, green and blue, which is subtracted from pixels between 0 and 1; gray images use the first",
        configs::between(0, 1));
    fields.add(
        "deviation", deviation,
        "standard deviation of red, green and blue, by which the difference is divided; gray images use the first",
        configs::between(1e-6, 1e6));
    fields.add(
        "area", area,
        "smallest and largest area of a random crop, as a share of the training image, like scale of torchvision's "
        "RandomResizedCrop",
        configs::between(1e-3, 1));
    describe_mixing(fields);
    fields.add("crop", crop, "side of the center crop in evaluations, as a share of the shorter side",
               configs::between(0.1, 1));
    fields.add("bad_share", bad_share, "share of the images that may be unreadable; each is reported and skipped",
               configs::between(0, 1));
    fields.add("threads", threads,
               "threads per rank that read and decode images; 0: as many as compute (see run.threads)",
               configs::between(0, 1024));
  }
};

struct ImageFolderConfig : EncodedImagesConfig {
  std::string train = {}, validation = {};

  template <class Fields>
  void describe(Fields& fields) {
    fields.require(
        "train", train,
        "folder of JPEG and PNG images to train on, with a folder for each class; classes are numbered by name");
    fields.require("validation", validation, "folder with the same classes for evaluations");
    describe_decoding(fields);
  }
};

struct WebDatasetConfig : EncodedImagesConfig {
  std::string train = {}, validation = {};
  int64_t shuffle = 1000;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train,
                   "tar archives to train on, in which NAME.jpg (or .jpeg, .png) and NAME.cls, the number of the "
                   "class, are neighbors; a pattern such as data/train-*.tar means several archives");
    fields.require("validation", validation, "tar archives for evaluations");
    fields.add("shuffle", shuffle,
               "number of consecutive samples of an archive that are held in memory and shuffled in each epoch; 1: the "
               "order of the archive; the order of archives is shuffled in any case",
               configs::between(1, 1e6), "samples");
    describe_decoding(fields);
  }
};

}  // namespace strata::trainer
