// SPDX-License-Identifier: MIT
// Checks that every tensor of a micro-batch is copied. The structured bindings name all members of each content, so a
// new tensor does not compile until it is listed here and tested.
#include "trainer/tasks/micro_batch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/errors.h"
#include "trainer/tasks/graph_batch.h"
#include "trainer/tasks/image_classification.h"
#include "trainer/tasks/language_modeling.h"

namespace strata::trainer {
namespace {

using modules::GraphStep;
using modules::WeightedGraph;

Tensor some(int64_t number) { return at::full({3}, number, at::kLong); }

Tensor to_meta(const Tensor& tensor) { return tensor.to(at::kMeta); }

WeightedGraph some_graph() {
  const Tensor targets = at::arange(5), sources = targets.flip(0);
  return {kernels::NeighborGraph::from_edges(sources, targets, 5, 5), at::full({5}, 0.5, at::kFloat)};
}

bool is_replaced(const WeightedGraph& graph) {
  const auto& [matrix, edge_weight] = graph;
  const auto& [targets, sources, by_target, by_source, edge_by_source] = matrix;
  bool all = edge_weight.is_meta() && edge_by_source.is_meta();
  for (const kernels::Adjacency& side : {by_target, by_source}) {
    const auto& [offsets, neighbors, long_rows, first_pieces, piece_rows, piece_begins, pieces] = side;
    for (const Tensor& tensor : {offsets, neighbors, long_rows, first_pieces, piece_rows, piece_begins}) {
      all = all && (!tensor.defined() || tensor.is_meta());
    }
  }
  return all;
}

TEST(MicroBatch, OfTokensIsCopiedAsAWhole) {
  const MicroBatch batch = MicroBatch(TokenBatch{some(1), some(2), some(3), some(4)}, 7).with_each(to_meta);
  const auto& [tokens, targets, document_offsets, positions] = batch.as<TokenBatch>();
  EXPECT_TRUE(tokens.is_meta());
  EXPECT_TRUE(targets.is_meta());
  EXPECT_TRUE(document_offsets.is_meta());
  EXPECT_TRUE(positions.is_meta());
  EXPECT_EQ(batch.first_sample, 7);
}

TEST(MicroBatch, OfImagesIsCopiedAsAWhole) {
  const MicroBatch batch = MicroBatch(MixedImages{some(1), some(2), some(3)}).with_each(to_meta);
  const auto& [images, labels, share] = batch.as<MixedImages>();
  EXPECT_TRUE(images.is_meta());
  EXPECT_TRUE(labels.is_meta());
  EXPECT_TRUE(share.is_meta());
}

TEST(MicroBatch, OfGraphsIsCopiedAsAWhole) {
  auto step = std::make_shared<GraphStep>();
  step->layers = {some_graph(), some_graph()};
  step->features = step->pooling = some_graph();
  step->first_row = 11;
  step->aggregated_features = some(3);
  const MicroBatch batch = MicroBatch(GraphBatch{some(1), some(2), step}).with_each(to_meta);
  const auto& [inputs, labels, graph] = batch.as<GraphBatch>();
  EXPECT_TRUE(inputs.is_meta());
  EXPECT_TRUE(labels.is_meta());
  const auto& [features, layers, pooling, first_row, aggregated_features, with_halo] = *graph;
  EXPECT_TRUE(is_replaced(features));
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_TRUE(is_replaced(layers[0]));
  EXPECT_TRUE(is_replaced(layers[1]));
  EXPECT_TRUE(is_replaced(pooling));
  EXPECT_TRUE(aggregated_features.is_meta());
  EXPECT_EQ(first_row, 11);
}

// The feed does this on GPUs.
TEST(MicroBatch, IsCopiedToTensorsThatAreThere) {
  const MicroBatch batch(MixedImages{some(1), some(2), some(3)}, 5);
  const MicroBatch places = batch.with_each([](const Tensor& tensor) { return at::empty_like(tensor); });
  const MicroBatch copied = batch.copied_to(places);
  ASSERT_EQ(copied.tensors().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(copied.tensors()[i].is_same(places.tensors()[i]));
    EXPECT_TRUE(at::equal(copied.tensors()[i], batch.tensors()[i]));
  }
  EXPECT_EQ(copied.first_sample, 5);
}

TEST(MicroBatch, OfAnotherTaskIsRefused) {
  EXPECT_THROW(MicroBatch(TokenBatch{some(1), some(2)}).as<MixedImages>(), Error);
  EXPECT_THROW(MicroBatch().as<MixedImages>(), Error);
}

TEST(MicroBatch, IsCopiedOnlyToTensorsOfItsShapes) {
  const MicroBatch places(GraphBatch{some(0), some(0)});
  const MicroBatch copied = MicroBatch(GraphBatch{some(1), some(2)}, 4).copied_to(places);
  EXPECT_EQ(copied.first_sample, 4);
  EXPECT_TRUE(at::equal(places.as<GraphBatch>().labels, some(2)));
  EXPECT_THROW(MicroBatch(GraphBatch{at::full({1}, 7, at::kLong), some(2)}).copied_to(places), Error);
  EXPECT_THROW(MicroBatch(GraphBatch{some(7), Tensor()}).copied_to(places), Error);
  EXPECT_TRUE(at::equal(places.as<GraphBatch>().inputs, some(1))) << "nothing was copied";
}

}  // namespace
}  // namespace strata::trainer
