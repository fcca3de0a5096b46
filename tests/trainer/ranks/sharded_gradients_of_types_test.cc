// SPDX-License-Identifier: MIT
// Compares losses and gradients of a sharded model in 16 bits, or with several types, with one rank in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/trainer/ranks/sharded_gradients.h"

namespace strata::trainer {
namespace {

TEST(ShardedGradientsOfTypes, Of16BitsStayNearFloat32) {
  for (const bool images : {false, true}) {
    const auto with = [&](const Overrides& more) { return images ? vision(more) : more; };
    const Result& exact = on_one_rank(with({}));
    for (const std::string types : {"bfloat16", "bfloat16, reduce: bfloat16", "float16, reduce: float16"}) {
      const double most = types.starts_with("float16") ? 0.15 / 8 : 0.15;  // it has 3 more bits
      for (const std::string& batches : {std::string("micro_batch=2"), one_micro_batch()}) {
        SCOPED_TRACE(types + " " + batches);
        const Result rounded = on_all_ranks(with({"precision={compute: " + types + "}", batches}));
        EXPECT_NEAR(rounded.loss, exact.loss, most / 15 * exact.loss);
        expect_close(rounded, exact, most);  // bfloat16: 0.087 without AVX-512
      }
    }
  }
}

// Some layers have another type than the rest. With all layers in float32, only embedding, last norm and head round.
TEST(ShardedGradientsOfTypes, OfLayersWithATypeOfTheirOwn) {
  const auto with = [](const std::string& rest, const std::string& lines) {
    return Overrides{"precision={" + rest + ", layers: [" + lines + "]}"};
  };
  const Result& exact = on_one_rank({});
  const auto largest_difference = [&](const Result& result) {
    double largest = 0;
    for (const auto& [name, gradient] : exact.gradients) {
      if (!name.starts_with("blocks.")) continue;
      largest = std::max(largest, relative_difference(result.gradients.at(name), gradient));
    }
    return largest;
  };
  const std::string rounded = "compute: bfloat16, reduce: bfloat16";
  const double everywhere = largest_difference(on_all_ranks(with(rounded, "")));
  EXPECT_LT(everywhere, 8e-2);
  EXPECT_LT(largest_difference(on_all_ranks(with(rounded, "{only: 0-4, compute: float32}"))), 0.5 * everywhere);

  // Entries without effect change no bit, and neither does gradient checkpointing in layers of both types.
  const auto short_step = [](Overrides overrides) {
    overrides.push_back(two_micro_batches());
    return on_all_ranks(overrides);
  };
  expect_same_bits(short_step(with("compute: float32", "{only: 0-4, compute: float32}")), short_step({}));
  expect_same_bits(short_step(with(rounded, "{only: 1, compute: float32}, {only: 0-4, compute: bfloat16}")),
                   short_step(with(rounded, "")));
  Overrides mixed = with("compute: bfloat16", "{only: 0, compute: float32}, {only: 3-4, compute: float32}");
  const Result without = short_step(mixed);
  mixed.push_back("gradient_checkpointing=[0-1, 2-4 selective]");
  expect_same_bits(short_step(mixed), without);
}

// Some parameter groups are in float32 and the others in bfloat16.
TEST(ShardedGradientsOfTypes, OfGroupsWithATypeOfTheirOwn) {
  const auto with = [](Overrides family, const Overrides& groups, const std::string& reduce) {
    std::string lines;
    for (const std::string& group : groups) lines += "{only: " + group + ", compute: float32}, ";
    family.push_back("precision={compute: bfloat16, reduce: " + reduce + ", modules: [" + lines + "]}");
    return family;
  };
  const auto expect_types = [&](const Overrides& family, const Overrides& some, const Overrides& all) {
    SCOPED_TRACE(family[0] + " " + some[0]);
    const Result &exact = on_one_rank(family), &mixed = on_one_rank(with(family, some, "float32"));
    expect_same_bits(on_one_rank(with(family, all, "float32")), exact);
    EXPECT_NE(mixed.loss, exact.loss);
    expect_close(on_all_ranks(with(family, some, "float32")), mixed, 4e-2);
    const Result reduced = on_all_ranks(with(family, some, "bfloat16"));
    expect_close(reduced, exact, 8e-2);
    Overrides checkpointed = with(family, some, "bfloat16");
    checkpointed.push_back("gradient_checkpointing=[0-1, 2-3 selective]");
    expect_same_bits(on_all_ranks(checkpointed), reduced);
  };
  expect_types({"model.tied=false"}, {"head"}, {"root", "blocks", "head"});
  expect_types(kGpt2, {"root", "blocks.1-2"}, {"root", "blocks.0-4"});
  expect_types(vision({}), {"head", "blocks.4"}, {"root", "blocks", "head"});
  expect_types(graph("sage", {}), {"layers.0"}, {"layers"});
  expect_types(graph("gcn", {"model.projection=dense"}), {"root", "layers.3"}, {"root", "layers"});
}

}  // namespace
}  // namespace strata::trainer
