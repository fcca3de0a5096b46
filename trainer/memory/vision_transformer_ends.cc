// SPDX-License-Identifier: MIT
#include "trainer/memory/vision_transformer_ends.h"

#include "trainer/config/image_data.h"

namespace strata::trainer {
namespace {

using modules::Pooling;
using modules::VisionTransformerConfig;

bool mixes_images(const DataConfig& data) {
  const ImageMixingConfig mixing = image_mixing(data);
  return mixing.mixup > 0 || mixing.cutmix > 0;
}

// Values of a patch follow each other channel by channel.
bool are_patches(const VisionTransformerConfig& model, const DataConfig& data) {
  const bool one_patch = model.patch == model.image_size, one_pixel = model.patch == 1, grey = model.channels == 1;
  return (grey && (one_patch || one_pixel)) || (lie_by_pixels(data) ? one_pixel : one_patch);
}

}  // namespace

VisionTransformerEnds::VisionTransformerEnds(const TrainerConfig& config, const VisionTransformerConfig& model,
                                             OpMemory& ops, MemoryLedger& ledger)
    : model_(model),
      ops_(ops),
      ledger_(ledger),
      mixes_(mixes_images(config.data)),
      are_patches_(are_patches(model, config.data)),
      values_(ops.samples() * model.channels * model.image_size * model.image_size),
      images_(ops.tensor(values_, 4)),
      patches_(ops.tensor(values_, ops.outside().bytes)),
      embedded_(ops.tensor(ops.samples() * model.patches() * model.width, ops.outside().bytes)) {}

int64_t VisionTransformerEnds::batch() const {
  const int64_t shares = mixes_ ? ops_.tensor(model_.image_size * model_.image_size, 4) : 0;
  return ops_.tensor(values_, 1) + ops_.tensor(ops_.samples(), 8) + shares;
}

void VisionTransformerEnds::embed() {
  const Part& part = ops_.outside();
  ledger_.at("the embedding");
  ledger_.take(2 * images_);  // pixels as numbers, and normalized
  ledger_.give(images_);
  if (mixes_) {
    ledger_.take(2 * images_);  // those they are mixed with, and the mixed ones
    ledger_.give(images_);
  }
  if (part.bytes == 2) ledger_.take(patches_);  // in that type
  if (!are_patches_) ledger_.take(patches_);
  ledger_.take(embedded_);
  if (part.bytes == 2 && !are_patches_) ledger_.give(patches_);
  if (model_.pooling == Pooling::class_token) {
    const int64_t token = ops_.samples() > 1 ? ops_.tensor(ops_.samples() * model_.width, part.bytes) : 0;
    ledger_.take(token + part.stream);
    ledger_.give(token + embedded_);
  }
  ledger_.need(part.stream);  // with positions
  ops_.dropout(part, "patch_embedding");
}

void VisionTransformerEnds::head(int64_t let_go) {
  const Part& part = ops_.outside();
  const int64_t bytes = part.bytes, pooled = ops_.tensor(ops_.samples() * model_.width, bytes);
  const int64_t scores = ops_.tensor(ops_.samples() * model_.classes, ops_.head().bytes);
  const int64_t input = ops_.tensor(ops_.samples() * model_.width, ops_.head().bytes);  // of the head
  const int64_t statistics = ops_.statistics(part, "norm");
  const int64_t copies = ops_.layers().back().bytes == bytes ? 0 : 2 * part.stream;  // of residual and branch
  const bool mean = model_.pooling == Pooling::mean, turns = ops_.head().bytes != bytes;
  const int64_t kept = turns ? input : mean ? pooled : part.stream;  // by the head
  ledger_.at("the final norm");
  ledger_.take(copies);
  ledger_.take(2 * part.stream + statistics);
  ledger_.give(copies);
  if (mean) {
    if (bytes == 2 && !ops_.on_gpu()) ledger_.need(part.wide_stream);  // ATen's copy in fp32
    ledger_.take(pooled);
  }
  if (turns) ledger_.take(input);
  ledger_.take(scores);
  // The model is done: what its last layer put out, the images unless they are the patches, the stream before dropout.
  if (turns) ledger_.give(mean ? pooled : part.stream);
  ledger_.give(let_go + (mean ? part.stream : 0) + (mixes_ ? 2 : 1) * images_ + (model_.dropout > 0 ? part.stream : 0));
  if (are_patches_ && bytes == 4) ledger_.take(patches_);
  loss();
  ledger_.at("the backward of the head");
  ledger_.take(input);  // its gradient
  ops_.weight_gradient(ops_.head(), "head", model_.classes, model_.width);
  ledger_.give(scores + kept);
  if (turns) ledger_.take(pooled), ledger_.give(input);
  ledger_.take(part.stream);
  ledger_.give(pooled);
  ledger_.at("the backward of the final norm");
  ledger_.take(part.stream);
  ledger_.give(2 * part.stream + statistics);
}

// Comes with the scores and leaves with their gradient.
void VisionTransformerEnds::loss() {
  const kernels::Level level = ops_.loss_level();
  const int64_t rows = ops_.samples(), scores = ops_.tensor(rows * model_.classes, ops_.head().bytes);
  ledger_.at("the loss");
  if (mixes_) {  // a loss for either label, the first of them on a copy
    ledger_.take(scores);
    ops_.cross_entropy(level, rows, model_.classes);
  }
  ops_.cross_entropy(level, rows, model_.classes);
  ledger_.at("the backward of the loss");
  ops_.cross_entropy_backward(level, rows, model_.classes);
  if (mixes_) ledger_.give(scores);
}

void VisionTransformerEnds::embed_backward() {
  const Part& part = ops_.outside();
  ledger_.at("the backward of the embedding");
  if (model_.dropout > 0) ops_.dropout(part, "patch_embedding"), ledger_.give(part.stream);
  ledger_.need(ops_.tensor(ops_.positions() * model_.width, part.bytes));  // the gradient of positions
  const bool class_token = model_.pooling == Pooling::class_token;
  if (class_token) ledger_.take(embedded_);  // rows that follow each other
  ops_.weight_gradient(part, "patch_embedding", model_.width, model_.channels * model_.patch * model_.patch);
  ledger_.give((class_token ? embedded_ : 0) + patches_ + part.stream);
}

}  // namespace strata::trainer
