// SPDX-License-Identifier: MIT
// Checks every collective against a plain computation, on any number of ranks, with tensors on CPUs or GPUs.
#include "sharding/communication/communicator.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/errors.h"
#include "sharding/communication/mpi_thread.h"
#include "tests/sharding/mpi_main.h"

namespace strata::sharding {
namespace {

using at::ScalarType;
using tests::session;

constexpr int64_t kCounts[] = {0, 1, 3, 7, 255, 1024, 4097, 100003, 300000};

// Returns the input of rank `rank`: random, of mixed size and sign, so that another order of the sum changes the bits.
Tensor random_input(int64_t count, ScalarType dtype, int rank, int salt = 0) {
  uint64_t state = static_cast<uint64_t>(count * 1000 + rank * 10 + salt);
  Tensor tensor = at::empty({count}, at::dtype(ScalarType::Double));
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tensor.data_ptr<double>()[i] = static_cast<double>(static_cast<int32_t>(state >> 32)) * (i % 3 == 0 ? 1e-9 : 1e-6);
  }
  return tensor.to(dtype).to(tests::device());
}

Tensor zeros(int64_t count, ScalarType dtype) { return at::zeros({count}, at::dtype(dtype).device(tests::device())); }

bool has_16_bits(ScalarType dtype) { return dtype == ScalarType::BFloat16 || dtype == ScalarType::Half; }

// Returns the sum of the contract: in rank order, in fp32 for types of 16 bits.
Tensor summed(const std::vector<Tensor>& inputs) {
  const ScalarType dtype = inputs[0].scalar_type();
  Tensor sum = inputs[0].to(has_16_bits(dtype) ? ScalarType::Float : dtype).clone();
  for (size_t i = 1; i < inputs.size(); ++i) sum.add_(inputs[i].to(sum.scalar_type()));
  return sum.to(dtype);
}

std::vector<Tensor> inputs_of_all(int64_t count, ScalarType dtype, int ranks, int salt = 0) {
  std::vector<Tensor> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(random_input(count, dtype, rank, salt));
  return inputs;
}

// Checks for equal bits. NCCL sums three and more terms in its own order, so there a difference is allowed.
testing::AssertionResult is_sum(const Tensor& actual, const Tensor& expected, size_t terms) {
  if (at::equal(actual, expected)) return testing::AssertionSuccess();
  if (actual.is_cpu() || terms <= 2 || actual.scalar_type() == ScalarType::Long) return testing::AssertionFailure();
  const double scale = static_cast<double>(terms) * 2.2e3;  // inputs are below 2^31 * 1e-6
  const Tensor difference = actual - expected;
  const double error = difference.abs().max().item<double>();
  const ScalarType dtype = actual.scalar_type();
  const double rounding = dtype == ScalarType::BFloat16 ? 8e-3 : dtype == ScalarType::Half ? 1e-3 : 2.4e-7;
  if (error <= scale * rounding) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the error is " << error;
}

class CommunicatorTest : public testing::TestWithParam<ScalarType> {
 protected:
  ScalarType dtype() const { return GetParam(); }
  Communicator* const all_ = &tests::world();
  const int rank_ = all_->rank(), size_ = all_->size();
};

INSTANTIATE_TEST_SUITE_P(Dtypes, CommunicatorTest,
                         testing::Values(ScalarType::Float, ScalarType::BFloat16, ScalarType::Half, ScalarType::Double,
                                         ScalarType::Long),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(CommunicatorTest, AllGather) {
  for (const int64_t count : kCounts) {
    const auto inputs = inputs_of_all(count, dtype(), size_);
    Tensor output = zeros(count * size_, dtype());
    Tensor in_place = zeros(count * size_, dtype());
    Tensor own = in_place.narrow(0, rank_ * count, count);
    own.copy_(inputs[rank_]);
    PendingCollective first = all_->all_gather(output, inputs[rank_], "outputs");
    PendingCollective second = all_->all_gather(in_place, own, "in place");
    first.wait();
    second.wait();
    for (int rank = 0; rank < size_; ++rank) {
      EXPECT_TRUE(at::equal(output.narrow(0, rank * count, count), inputs[rank])) << count << " from " << rank;
      EXPECT_TRUE(at::equal(in_place.narrow(0, rank * count, count), inputs[rank])) << count << " from " << rank;
    }
  }
}

// Checks each kind of gather next to a running reduction, from and into its gather buffers, and again after a split.
TEST_P(CommunicatorTest, EveryWayToGatherGivesTheSame) {
  const bool copies = tests::device().is_cuda();
  const std::vector<Gather> ways =
      copies ? std::vector{Gather::shared, Gather::separate, Gather::copy_engines} : std::vector{Gather::shared};
  for (const Gather way : ways) {
    const std::unique_ptr<Communicator> all = session().communicator(way);
    const std::unique_ptr<Communicator> same = all->split(0), half = all->split(rank_ % 2);
    for (Communicator* communicator : {all.get(), same.get(), half.get()}) {
      const int size = communicator->size();
      for (const int64_t count : {0, 3, 4097, 300000}) {
        const auto inputs = inputs_of_all(count, dtype(), size);
        const auto options = at::dtype(dtype()).device(tests::device());
        const Tensor input = communicator->gather_buffer(count, options);
        const Tensor output = communicator->gather_buffer(count * size, options);
        EXPECT_EQ(output.ne(0).sum().item<int64_t>(), 0) << "a buffer holds something";
        input.copy_(inputs[communicator->rank()]);
        const Tensor sum = inputs[communicator->rank()].clone();
        PendingCollective reducing = communicator->all_reduce(sum, "sum");
        PendingCollective gathering = communicator->all_gather(output, input, "outputs");
        gathering.wait();
        reducing.wait();
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_TRUE(at::equal(output.narrow(0, rank * count, count), inputs[rank])) << count << " from " << rank;
        }
        EXPECT_TRUE(is_sum(sum, summed(inputs), inputs.size())) << count;
      }
    }
  }
}

TEST(CommunicatorErrors, CpusGatherInOneWay) {
  if (tests::device().is_cuda()) return;
  try {
    session().communicator(Gather::copy_engines);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("sharding.gather is copy_engines, which is for GPUs"), std::string::npos);
  }
}

TEST_P(CommunicatorTest, ReduceScatterHasTheBitsOfTheSumInRankOrder) {
  for (const int64_t count : kCounts) {
    const auto inputs = inputs_of_all(count * size_, dtype(), size_);
    const Tensor expected = summed(inputs).narrow(0, rank_ * count, count);
    Tensor output = zeros(count, dtype()).fill_(7);
    all_->reduce_scatter(output, inputs[rank_], "outputs").wait();
    EXPECT_TRUE(is_sum(output, expected, inputs.size())) << count;
    Tensor in_place = inputs[rank_].clone();
    Tensor own = in_place.narrow(0, rank_ * count, count);
    all_->reduce_scatter(own, in_place, "in place").wait();
    EXPECT_TRUE(is_sum(own, expected, inputs.size())) << count;
  }
}

TEST_P(CommunicatorTest, AllReduceHasTheBitsOfTheSumInRankOrder) {
  for (const int64_t count : kCounts) {
    const auto inputs = inputs_of_all(count, dtype(), size_);
    Tensor tensor = inputs[rank_].clone();
    all_->all_reduce(tensor, "values").wait();
    EXPECT_TRUE(is_sum(tensor, summed(inputs), inputs.size())) << count;
  }
}

TEST_P(CommunicatorTest, AllReduceMaxHasTheLargestNumbers) {
  for (const int64_t count : kCounts) {
    const auto inputs = inputs_of_all(count, dtype(), size_);
    Tensor expected = inputs[0];
    for (const Tensor& input : inputs) expected = at::maximum(expected, input);
    Tensor tensor = inputs[rank_].clone();
    all_->all_reduce_max(tensor, "values").wait();
    EXPECT_TRUE(at::equal(tensor, expected)) << count;
  }
}

TEST_P(CommunicatorTest, Broadcast) {
  for (const int64_t count : kCounts) {
    for (int root = 0; root < size_; ++root) {
      Tensor tensor = random_input(count, dtype(), rank_, root);
      all_->broadcast(tensor, root, "values").wait();
      EXPECT_TRUE(at::equal(tensor, random_input(count, dtype(), root, root))) << count << " from " << root;
    }
  }
}

TEST_P(CommunicatorTest, AllToAllWithUnevenAndEmptyParts) {
  for (const int64_t count : {0, 1, 5, 20001}) {
    // Rank i sends ((i + 2 * j) % 3) * count elements to rank j, which may be 0.
    auto sends = [&](int from, int to) { return int64_t{(from + 2 * to) % 3} * count; };
    auto values = [&](int from, int to) { return random_input(sends(from, to), dtype(), from, to); };
    std::vector<int64_t> input_counts, output_counts;
    for (int i = 0; i < size_; ++i) {
      input_counts.push_back(sends(rank_, i));
      output_counts.push_back(sends(i, rank_));
    }
    auto total = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    Tensor input = zeros(total(input_counts), dtype()), output = zeros(total(output_counts), dtype());
    for (int64_t to = 0, at = 0; to < size_; at += input_counts[to++])
      input.narrow(0, at, input_counts[to]).copy_(values(rank_, static_cast<int>(to)));
    all_->all_to_all(output, output_counts, input, input_counts, "halo").wait();
    for (int64_t from = 0, at = 0; from < size_; at += output_counts[from++])
      EXPECT_TRUE(at::equal(output.narrow(0, at, output_counts[from]), values(static_cast<int>(from), rank_))) << from;
  }
}

TEST_P(CommunicatorTest, ManyInFlightEndInOrder) {
  std::vector<Tensor> tensors;
  std::vector<PendingCollective> pending;
  auto count = [](int i) { return int64_t{37} * i * i; };
  for (int i = 0; i < 60; ++i) {
    tensors.push_back(random_input(count(i), dtype(), rank_, i));
    pending.push_back(all_->all_reduce(tensors.back(), "number " + std::to_string(i)));
  }
  for (int i = 59; i >= 0; --i) {  // waiting for the last one first is allowed, and so is waiting twice
    pending[i].wait();
    pending[i].wait();
    EXPECT_TRUE(is_sum(tensors[i], summed(inputs_of_all(count(i), dtype(), size_, i)), size_)) << i;
  }
}

TEST_P(CommunicatorTest, MessagesAboveTheLargestAreCut) {
  const auto thread = session().host_group().thread();
  if (thread) thread->set_largest_message(1000);  // instead of 1 GiB
  const int64_t count = 50001;
  const auto inputs = inputs_of_all(count * size_, dtype(), size_);
  Tensor gathered = zeros(count * size_ * size_, dtype()), reduced = zeros(count, dtype());
  all_->all_gather(gathered, inputs[rank_], "gathered").wait();
  all_->reduce_scatter(reduced, inputs[rank_], "reduced").wait();
  for (int rank = 0; rank < size_; ++rank)
    EXPECT_TRUE(at::equal(gathered.narrow(0, rank * count * size_, count * size_), inputs[rank])) << rank;
  EXPECT_TRUE(is_sum(reduced, summed(inputs).narrow(0, rank_ * count, count), inputs.size()));
  session().barrier();
  if (thread) thread->set_largest_message(size_t{1} << 30);
}

TEST_P(CommunicatorTest, SplitGroupsWorkBesideEachOther) {
  const auto half = all_->split(rank_ % 2);
  const auto alone = all_->split(rank_);
  const auto nested = half->split(0);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(half->size(), (size_ + 1 - rank_ % 2) / 2);
  EXPECT_EQ(half->rank(), rank_ / 2);
  std::vector<Tensor> members;
  for (int rank = rank_ % 2; rank < size_; rank += 2) members.push_back(random_input(5000, dtype(), rank));
  for (Communicator* group : {half.get(), nested.get()}) {
    Tensor tensor = random_input(5000, dtype(), rank_), everything = random_input(5000, dtype(), rank_, 1);
    PendingCollective part = group->all_reduce(tensor, "part");
    PendingCollective whole = all_->all_reduce(everything, "whole");
    part.wait();
    whole.wait();
    EXPECT_TRUE(is_sum(tensor, summed(members), members.size()));
    EXPECT_TRUE(is_sum(everything, summed(inputs_of_all(5000, dtype(), size_, 1)), size_));
  }
}

TEST(CommunicatorArguments, AreCheckedAtTheDoor) {
  Communicator* const all = &tests::world();
  const int size = all->size();
  const Tensor part = zeros(4, at::kFloat), whole = zeros(4 * size, at::kFloat),
               longer = zeros(4 * size + 1, at::kFloat);
  auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_NE(message([&] { all->all_gather(longer, part, "blocks.2"); })
                .find("all_gather of blocks.2 over " + std::to_string(size) +
                      " ranks: one side has 4 elements, the other must have " + std::to_string(4 * size) + " and has " +
                      std::to_string(4 * size + 1)),
            std::string::npos);
  EXPECT_NE(message([&] {
              all->reduce_scatter(part, whole.to(at::kDouble), "x");
            }).find("input is Double on " + tests::device().str() + ", output is Float"),
            std::string::npos);
  EXPECT_NE(message([&] { all->all_reduce(at::zeros({4}, at::kInt), "x"); }).find("not Int"), std::string::npos);
  EXPECT_NE(message([&] { all->all_reduce(at::zeros({4, 4}).t(), "x"); }).find("contiguous"), std::string::npos);
  EXPECT_NE(message([&] { all->all_reduce(Tensor(), "x"); }).find("undefined"), std::string::npos);
  EXPECT_NE(message([&] { all->broadcast(part, size, "x"); }).find("there is no rank " + std::to_string(size)),
            std::string::npos);
  EXPECT_NE(message([&] { all->all_to_all(part, {}, part, {}, "x"); }).find("0 output counts"), std::string::npos);
}

}  // namespace
}  // namespace strata::sharding
