// SPDX-License-Identifier: MIT
// Checks the exchange of keys and values of ranks that share sequences, and which tokens each rank has.
#include "trainer/tasks/sequence_exchange.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "modules/sequences.h"
#include "tests/sharding/mpi_main.h"

namespace strata::trainer {
namespace {

using at::Tensor;
using modules::SequencePart;

TEST(SequencePart, HasAnEarlyAndALateChunk) {
  const SequencePart part(/*rank=*/1, /*ranks=*/3, /*sequence=*/12, {});
  EXPECT_EQ(part.chunk(), 2);
  EXPECT_EQ(part.starts(), (std::array<int64_t, 2>{2, 8}));
  const Tensor positions = part.positions(at::kCPU);
  EXPECT_TRUE(at::equal(positions, at::cat({at::arange(2, 4), at::arange(8, 10)})));
  EXPECT_THROW(SequencePart(0, 3, 15, {}), c10::ValueError);
}

TEST(SequencePart, RanksHaveEachPositionOnceAndAsManyVisiblePairs) {
  constexpr int64_t kRanks = 4, kSequence = 48;
  Tensor count = at::zeros({kSequence}, at::kLong);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const Tensor positions = SequencePart(rank, kRanks, kSequence, {}).positions(at::kCPU);
    count.index_add_(0, positions, at::ones_like(positions));
    EXPECT_EQ((positions + 1).sum().item<int64_t>(), kSequence * (kSequence + 1) / 2 / kRanks);
  }
  EXPECT_TRUE(count.eq(1).all().item<bool>());
}

TEST(GatherSequence, PutsAllPositionsInOrderAndSumsTheirGradients) {
  sharding::Communicator& world = tests::world();
  const int64_t ranks = world.size(), sequence = 6 * ranks, batch = 2, width = 5;
  const SequencePart part(world.rank(), ranks, sequence, {});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    // The numbers are small, so that bf16 has them.
    const Tensor whole = at::arange(batch * sequence * width, at::TensorOptions(at::kLong).device(tests::device()))
                             .remainder(31)
                             .view({batch, sequence, width})
                             .to(type);
    const Tensor positions = part.positions(tests::device());
    const Tensor own = whole.index_select(1, positions).requires_grad_();
    const Tensor all = gather_sequence(own, world);
    EXPECT_TRUE(at::equal(all, whole));
    EXPECT_TRUE(all.is_contiguous());
    // Rank r has the gradient (r + 1) * whole, and the sum of all r + 1 is ranks * (ranks + 1) / 2.
    torch::autograd::backward({all}, {whole * (world.rank() + 1)});
    const Tensor expected = whole.index_select(1, positions) * (ranks * (ranks + 1) / 2);
    EXPECT_TRUE(at::equal(own.grad(), expected));
    EXPECT_EQ(own.grad().scalar_type(), type);
  }
}

}  // namespace
}  // namespace strata::trainer
