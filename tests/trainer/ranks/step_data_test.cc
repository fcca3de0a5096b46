// SPDX-License-Identifier: MIT
// Checks the inputs and results of steps on the device of the test: batches of any step in any order, results of every
// step in order. Also checks what a step may not do.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/errors.h"
#include "tests/sharding/mpi_main.h"
#include "trainer/feed/batch_feed.h"
#include "trainer/feed/contiguous_batches.h"
#include "trainer/replicas/replica_hash.h"
#include "trainer/report/phase_timer.h"
#include "trainer/step/step_results.h"
#include "trainer/step/strict_step_guard.h"
#include "trainer/step/work_times.h"
#include "trainer/tasks/graph_batch.h"

namespace strata::trainer {
namespace {

using at::Tensor;

Tensor numbers(int64_t step, int64_t batch) { return at::full({3, 5}, 100 * step + batch, at::kLong); }

std::vector<MicroBatch> read(int64_t step) {
  if (step == 13) throw Error(ExitCode::data, "token 13 is damaged");
  std::vector<MicroBatch> batches;
  for (int64_t i = 0; i < 2; ++i) batches.push_back({GraphBatch{numbers(step, i), numbers(step, i + 50)}, 3 * i});
  return batches;
}

TEST(BatchFeed, GivesTheBatchesOfEachStepAlsoAfterAJump) {
  BatchFeed feed(read, tests::device(), /*own_graphs=*/false);
  std::vector<const void*> places;
  for (const int64_t step : {1, 2, 3, 4, 5, 9, 10, 2, 3}) {
    const auto& batches = feed.next(step);
    ASSERT_EQ(batches.size(), 2u);
    for (int64_t i = 0; i < 2; ++i) {
      const MicroBatch& batch = batches[static_cast<size_t>(i)];
      const auto& [inputs, labels, graph] = batch.as<GraphBatch>();
      EXPECT_TRUE(at::equal(inputs.cpu(), numbers(step, i))) << step;
      EXPECT_TRUE(at::equal(labels.cpu(), numbers(step, i + 50))) << step;
      EXPECT_EQ(batch.first_sample, 3 * i);
      EXPECT_EQ(inputs.device(), tests::device());
    }
    places.push_back(batches[0].tensors()[0].const_data_ptr());
    if (tests::device().is_cuda()) {
      EXPECT_EQ(places.back(), places.front());  // a captured step reads them there
    }
  }
}

TEST(BatchFeed, RepeatsTheBatchesOfOneStepAndReadsNoMore) {
  std::atomic<int> calls = 0;
  BatchFeed feed(
      [&](int64_t step) {
        ++calls;
        return read(step);
      },
      tests::device(), /*own_graphs=*/false);
  feed.repeat();
  for (const int64_t step : {4, 5, 6, 13}) {
    const MicroBatch& batch = feed.next(step)[1];
    EXPECT_TRUE(at::equal(batch.as<GraphBatch>().inputs.cpu(), numbers(4, 1))) << step;
  }
  EXPECT_EQ(calls, 1);
}

TEST(BatchFeed, ThrowsWhatCannotBeReadAtTheStepItBelongsTo) {
  BatchFeed feed(read, tests::device(), /*own_graphs=*/false);
  EXPECT_NO_THROW(feed.next(11));
  EXPECT_NO_THROW(feed.next(12));
  EXPECT_THROW(feed.next(13), Error);
}

// The sizes differ in every step.
std::vector<MicroBatch> read_graphs(int64_t step) {
  std::vector<MicroBatch> batches = read(step);
  for (MicroBatch& batch : batches) {
    const int64_t nodes = 3 + step % 5;
    auto graph = std::make_shared<modules::GraphStep>();
    const Tensor targets = at::arange(nodes), sources = targets.flip(0);
    graph->layers.push_back({kernels::NeighborGraph::from_edges(sources, targets, nodes, nodes),
                             at::full({nodes}, static_cast<double>(step), at::kFloat)});
    graph->pooling = {kernels::NeighborGraph::from_edges(sources, targets, nodes, nodes + 1), {}};
    graph->first_row = 7 * step;
    const auto& [inputs, labels, none] = batch.as<GraphBatch>();
    batch = {GraphBatch{inputs, labels, graph}, batch.first_sample};
  }
  return batches;
}

void expect_graphs_of(int64_t step, const std::vector<MicroBatch>& batches) {
  const std::vector<MicroBatch> expected = read_graphs(step);
  ASSERT_EQ(batches.size(), expected.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    const GraphBatch &batch = batches[i].as<GraphBatch>(), &wanted = expected[i].as<GraphBatch>();
    EXPECT_TRUE(at::equal(batch.inputs.cpu(), wanted.inputs)) << step;
    EXPECT_TRUE(at::equal(batch.labels.cpu(), wanted.labels)) << step;
    EXPECT_EQ(batches[i].first_sample, expected[i].first_sample);
    const modules::GraphStep &graph = *batch.graph, &other = *wanted.graph;
    EXPECT_EQ(graph.first_row, other.first_row);
    EXPECT_FALSE(graph.features.graph.by_target.offsets.defined());
    EXPECT_FALSE(graph.pooling.edge_weight.defined());
    EXPECT_EQ(graph.pooling.graph.targets, other.pooling.graph.targets);
    for (const auto& [one, two] : {std::pair{&graph.layers[0], &other.layers[0]}, {&graph.pooling, &other.pooling}}) {
      EXPECT_EQ(one->graph.device(), batch.inputs.device());
      EXPECT_TRUE(at::equal(one->graph.by_target.offsets.cpu(), two->graph.by_target.offsets));
      EXPECT_TRUE(at::equal(one->graph.by_target.neighbors.cpu(), two->graph.by_target.neighbors));
      EXPECT_TRUE(at::equal(one->graph.by_source.neighbors.cpu(), two->graph.by_source.neighbors));
      EXPECT_TRUE(at::equal(one->graph.edge_by_source.cpu(), two->graph.edge_by_source));
    }
    EXPECT_TRUE(at::equal(graph.layers[0].edge_weight.cpu(), other.layers[0].edge_weight));
  }
}

TEST(BatchFeed, GivesGraphsOfAnySizeAlsoAfterAJump) {
  at::set_num_threads(4);
  BatchFeed feed(read_graphs, tests::device(), /*own_graphs=*/true);
  for (const int64_t step : {1, 2, 3, 4, 5, 9, 10, 2, 3, 3}) expect_graphs_of(step, feed.next(step));
  at::set_num_threads(1);
}

TEST(BatchFeed, ThrowsForGraphsAtTheStepTheyBelongTo) {
  BatchFeed feed(read_graphs, tests::device(), /*own_graphs=*/true);
  for (const int64_t step : {10, 11, 12}) expect_graphs_of(step, feed.next(step));
  EXPECT_THROW(feed.next(13), Error);
  expect_graphs_of(14, feed.next(14));
}

// On GPUs, batches of other sizes would be broadcast to the first step's, so they are refused. On CPUs batches
// are not copied, and have any size.
TEST(BatchFeed, RefusesOtherShapesWhereItCopiesThemUnlessBatchesHaveGraphsOfTheirOwn) {
  const auto read_one_row_later = [](int64_t step) {
    return std::vector<MicroBatch>{GraphBatch{at::full({step == 1 ? 3 : 1, 5}, step, at::kLong), numbers(step, 0)}};
  };
  const auto expect_one_row = [](const std::vector<MicroBatch>& batches) {
    ASSERT_EQ(batches.size(), 1u);
    EXPECT_TRUE(at::equal(batches[0].as<GraphBatch>().inputs.cpu(), at::full({1, 5}, 2, at::kLong)));
  };
  BatchFeed feed(read_one_row_later, tests::device(), /*own_graphs=*/false);
  EXPECT_EQ(feed.next(1)[0].as<GraphBatch>().inputs.size(0), 3);
  if (tests::device().is_cuda()) {
    EXPECT_THROW(feed.next(2), Error);
  } else {
    expect_one_row(feed.next(2));
  }
  BatchFeed feed_of_graphs(read_one_row_later, tests::device(), /*own_graphs=*/true);
  EXPECT_EQ(feed_of_graphs.next(1)[0].as<GraphBatch>().inputs.size(0), 3);
  expect_one_row(feed_of_graphs.next(2));
}

TEST(ContiguousBatches, AreWhatWasCopied) {
  const ContiguousBatches contiguous(read_graphs(4), /*pinned=*/tests::device().is_cuda());
  const std::vector<MicroBatch> batches = contiguous.on(tests::device());
  expect_graphs_of(4, batches);
  const void* block = batches[0].as<GraphBatch>().inputs.storage().data();
  const modules::GraphStep& graph = *batches[1].as<GraphBatch>().graph;
  EXPECT_EQ(block, graph.pooling.graph.by_source.offsets.storage().data());
  const auto address = reinterpret_cast<uintptr_t>(graph.layers[0].edge_weight.const_data_ptr());
  EXPECT_EQ((address - reinterpret_cast<uintptr_t>(block)) % 256, 0u);
}

Tensor on_device(double value) { return at::full({}, value, at::TensorOptions(at::kFloat).device(tests::device())); }

// The members are written by their names and read by their places.
TEST(StepResults, AreReadAsTheyWereWritten) {
  StepResults results(tests::device(), /*works=*/1, /*hashes=*/2);
  results.write({.loss = on_device(1),
                 .gradient_norm = on_device(2),
                 .stop = on_device(3),
                 .unusable = on_device(4),
                 .skipped = on_device(5),
                 .overflowed = on_device(6),
                 .loss_scale = on_device(7),
                 .loss_of_rank = on_device(8),
                 .squares_of_rank = on_device(9)},
                at::stack({on_device(10), on_device(11), on_device(12)}));
  EXPECT_EQ(results.last().squares_of_rank, 9);
  results.push(20);
  const std::optional<StepResult> read = results.next(/*all=*/true);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 20);
  EXPECT_EQ(read->loss, 1);
  EXPECT_EQ(read->gradient_norm, 2);
  EXPECT_EQ(read->stop, 3);
  EXPECT_EQ(read->unusable, 4);
  EXPECT_EQ(read->skipped, 5);
  EXPECT_EQ(read->overflowed, 6);
  EXPECT_EQ(read->loss_scale, 7);
  EXPECT_EQ(read->loss_of_rank, 8);
  EXPECT_EQ(read->squares_of_rank, 9);
  EXPECT_EQ(read->work, std::vector<float>{10});
  EXPECT_EQ(read->hashes, (std::vector<float>{11, 12}));
}

TEST(StepResults, GiveEveryStepOnceAndInOrder) {
  StepResults results(tests::device(), /*works=*/3, /*hashes=*/4);
  const int64_t late = tests::device().is_cuda() ? 1 : 0;
  int64_t seen = 0;
  for (int64_t step = 1; step <= 7; ++step) {
    StepNumbers<Tensor> same;
    for (const auto member : StepNumbers<Tensor>::kMembers) same.*member = on_device(0.5 * static_cast<double>(step));
    results.write(same, same.loss.expand({7}));
    results.push(step);
    while (const auto result = results.next(/*all=*/step == 4)) {
      EXPECT_EQ(result->step, ++seen);
      EXPECT_EQ(result->loss, 0.5f * static_cast<float>(seen));
      EXPECT_EQ(result->skipped, result->loss);
      EXPECT_EQ(result->squares_of_rank, result->loss);
      EXPECT_EQ(result->work, std::vector<float>(3, result->loss));
      EXPECT_EQ(result->hashes, std::vector<float>(4, result->loss));
    }
    EXPECT_EQ(seen, step == 4 ? 4 : step - late);
  }
}

// On GPUs a time is known two steps later, so each step has the same.
TEST(WorkTimes, AreThoseOfThisRankWithoutItsWaits) {
  const at::Device device = tests::device();
  const auto sleep = [](int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
  PhaseTimer timer;
  WorkTimes times(device, /*rank=*/1, /*ranks=*/3, timer);
  const void* const place = times.values().const_data_ptr();
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 1; step <= 4; ++step) {
    times.write_last();
    {
      const PhaseTimer::Scope scope(timer, Phase::data);
      sleep(20);
    }
    times.inputs_are_set();
    {
      const PhaseTimer::Scope scope(timer, Phase::communication);
      sleep(40);
    }
    times.step_is_queued();
    if (device.is_cuda()) c10::cuda::device_synchronize();
  }
  times.write_last();
  const std::chrono::duration<float> all = std::chrono::steady_clock::now() - begin;
  const Tensor values = times.values().cpu();
  const auto phases = static_cast<int64_t>(WorkTimes::phase_names(device).size());
  ASSERT_EQ(values.numel(), 3 * phases);
  EXPECT_EQ(times.values().const_data_ptr(), place);  // a captured step reads it there
  const float data = values[phases].item<float>();
  EXPECT_GE(data, 0.019f);
  EXPECT_LE(data, all.count() - 0.219f);  // without the 4 waits and the data of 3 other steps, on a slow machine too
  EXPECT_EQ(values.sum().item<float>(), data);  // other ranks and phases have none
  EXPECT_EQ(WorkTimes(device, 0, /*ranks=*/1, timer).values().numel(), 0);
}

// The hash of 64 bits in the place of rank 1 of 3. Other ranks have none.
uint64_t hash_in(const Tensor& values) {
  EXPECT_EQ(values.numel(), 3 * ReplicaHash::kParts);
  uint64_t hash = 0;
  for (int64_t i = 0; i < ReplicaHash::kParts; ++i) {
    const auto part = static_cast<int16_t>(values[ReplicaHash::kParts + i].item<float>());
    hash |= uint64_t{static_cast<uint16_t>(part)} << (16 * i);
  }
  EXPECT_EQ(values.count_nonzero().item<int64_t>(),
            values.narrow(0, ReplicaHash::kParts, 4).count_nonzero().item<int64_t>());
  return hash;
}

// The lengths have whole and partial blocks of the CUDA kernel, and more elements than a grid has threads.
TEST(ReplicaHash, IsTheContentSumOfAllTensorsOnEveryDevice) {
  const Tensor all = at::arange(1'000'000, at::kFloat).div_(7);
  std::vector<Tensor> parts, on_host;
  int64_t first = 0;
  for (const int64_t count : {1, 31, 256, 0, 999'000, 37}) {
    on_host.push_back(all.narrow(0, first, count));
    parts.push_back(on_host.back().to(tests::device(), /*non_blocking=*/false, /*copy=*/true));
    first += count;
  }
  ReplicaHash hash(tests::device(), /*rank=*/1, /*ranks=*/3, parts);
  const void* const place = hash.values().const_data_ptr();
  for (int repeat = 0; repeat < 2; ++repeat) {  // nothing is left of the hash before
    hash.take();
    EXPECT_EQ(hash_in(hash.values().cpu()), sum_of_piece(all.const_data_ptr<float>(), first, 0).low);
    EXPECT_EQ(hash.values().const_data_ptr(), place);  // a captured step reads it there
  }
  const uint64_t before = hash_in(hash.values().cpu());
  const auto changes = [&](const Tensor& part, const Tensor& to) {
    const Tensor kept = part.clone();
    part.copy_(to);
    hash.take();
    const bool differs = hash_in(hash.values().cpu()) != before;
    part.copy_(kept);
    return differs;
  };
  for (int bit = 0; bit < 32; ++bit) {
    const Tensor bits = parts[4].view(at::kInt).clone();
    bits.narrow(0, 998'765, 1).bitwise_xor_(static_cast<int64_t>(static_cast<int32_t>(1u << bit)));
    EXPECT_TRUE(changes(parts[4], bits.view(at::kFloat))) << bit;
  }
  EXPECT_TRUE(changes(parts[1], parts[1].flip(0)));  // the order counts
  EXPECT_EQ(ReplicaHash(tests::device(), 0, 3, {}).values().numel(), 0);
}

TEST(StrictStepGuard, RefusesWaitsAndNewMemoryOfGpus) {
  const at::Device device = tests::device();
  const auto options = at::dtype(at::kByte).device(device);
  const Tensor one = at::full({}, 1, options);
  // 128 MiB, more than the cache holds of freed memory.
  const auto new_memory = [&] { return at::empty({int64_t{1} << 27}, options); };
  setenv("STRATA_STRICT_STEPS", "1", /*overwrite=*/1);
  if (device.is_cuda()) {
    const StrictStepGuard strict(device, /*may_wait=*/false, /*may_allocate=*/false);
    EXPECT_THROW(one.item<uint8_t>(), c10::Error);
    EXPECT_NO_THROW(strict.check_allocations());
    const Tensor more = new_memory();
    EXPECT_THROW(strict.check_allocations(), Error);
  }
  const auto may = [&](bool wait, bool allocate) {
    const StrictStepGuard strict(device, wait, allocate);
    if (wait) {
      EXPECT_EQ(one.item<uint8_t>(), 1);
    }
    const Tensor more = new_memory(), still_more = new_memory(), even_more = new_memory();
    EXPECT_NO_THROW(strict.check_allocations());
  };
  may(true, true);
  may(false, true);
  unsetenv("STRATA_STRICT_STEPS");
  const StrictStepGuard strict(device, /*may_wait=*/false, /*may_allocate=*/false);
  EXPECT_EQ(one.item<uint8_t>(), 1);
  const Tensor more = new_memory();
  EXPECT_NO_THROW(strict.check_allocations());
}

}  // namespace
}  // namespace strata::trainer
