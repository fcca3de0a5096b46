// SPDX-License-Identifier: MIT
#include "modules/image/mixer.h"

#include <ATen/ops/mean.h>

#include "modules/config/module_name.h"
#include "modules/dropout.h"
#include "modules/mlp.h"

// B images, T patches, D width

namespace strata::modules {
namespace {

// The options of an MLP from `width` to `hidden` and back.
Mlp::Options mlp_options(int64_t width, int64_t hidden) {
  return {.inputs = width,
          .feed_forward = hidden,
          .outputs = width,
          .activation = kernels::Activation::gelu,
          .inner_initialization = Initialization::scaled_by_inputs,
          .last_initialization = Initialization::scaled_by_inputs};
}

// One block: residual += mix_patches(norm1(residual)^T)^T, then residual += mix_channels(norm2(residual)). The second
// sum is left to the next norm.
class MixerBlock {
 public:
  MixerBlock(const Scope& scope, int64_t index, const MixerConfig& config)
      : norm1_(scope / "norm1", {.width = config.width, .epsilon = config.norm_epsilon}),
        mix_patches_(scope / "mix_patches", mlp_options(config.patches(), config.token_hidden_width())),
        patches_dropout_(scope / "mix_patches", config.dropout, 2 * index + 1),
        norm2_(scope / "norm2", {.width = config.width, .epsilon = config.norm_epsilon}),
        mix_channels_(scope / "mix_channels", mlp_options(config.width, config.feed_forward_or_default())),
        channels_dropout_(scope / "mix_channels", config.dropout, 2 * index + 2) {}

  ResidualStream operator()(const ResidualStream& stream, const StepContext& context) const {
    // This always copies, because a recomputed tensor needs a storage of its own. contiguous() would not copy if there
    // is a single patch.
    const auto transposed = [](const Tensor& x) { return x.transpose(1, 2).clone(at::MemoryFormat::Contiguous); };
    const auto mix_patches = [&](const Tensor& x_BDT) { return mix_patches_(x_BDT, context); };
    const auto mix_channels = [&](const Tensor& x_BTD) { return mix_channels_(x_BTD, context); };
    const Norm::Output first = norm1_(stream);
    const Tensor mixed_BTD = transposed(norm1_.run_branch(first, context, mix_patches, transposed));
    const Norm::Output second = norm2_({first.residual, patches_dropout_(mixed_BTD, context)});
    return {second.residual, channels_dropout_(norm2_.run_branch(second, context, mix_channels), context)};
  }

 private:
  // The order in which the parameters of the block are declared.
  Norm norm1_;
  Mlp mix_patches_;
  Dropout patches_dropout_;
  Norm norm2_;
  Mlp mix_channels_;
  Dropout channels_dropout_;
};

std::vector<Layer> mixer_blocks(const Scope& model, const MixerConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(MixerBlock(model.layer(block_name(i)), i, config));
  return blocks;
}

}  // namespace

Mixer::Mixer(const MixerConfig& config, const Scope& scope)
    : patches_(config.patches()),
      patch_embedding_(scope / "patch_embedding",
                       {.channels = config.channels, .patch = config.patch, .width = config.width}),
      blocks_(mixer_blocks(scope, config)),
      norm_(scope / "norm", {.width = config.width, .epsilon = config.norm_epsilon}),
      head_(scope.head("head"),
            {.outputs = config.classes, .inputs = config.width, .initialization = Initialization::scaled_by_inputs}) {}

void Mixer::wrap_layers(const WrapLayer& wrap) { wrap_each(blocks_, wrap); }

Tensor Mixer::operator()(const Tensor& images, const StepContext& context) const {
  ResidualStream stream{patch_embedding_(images), {}};
  for (const Layer& block : blocks_) stream = block(stream, context);
  const Tensor normed_BTD = norm_(cast_stream(stream, norm_.type())).y;
  return head_(at::mean(normed_BTD, 1).to(head_.type()));
}

}  // namespace strata::modules
