// SPDX-License-Identifier: MIT
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <memory>

#include "base/steady_seconds.h"
#include "tools/promise/measurements.h"

namespace strata::tools {
namespace {

using sharding::Collective;
using sharding::Operation;

constexpr int64_t kWarmUps = 3, kFewest = 15, kMost = 60;
constexpr int64_t kBytesOfAll = int64_t{256} << 20;  // bytes of all samples of one size, so that large ones are few
constexpr int64_t kSizes[] = {int64_t{4} << 10, int64_t{64} << 10, int64_t{512} << 10, int64_t{4} << 20,
                              int64_t{32} << 20};

Collective make(Operation operation, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  if (operation == Operation::all_gather) return sharding::all_gather_of(whole, part, ranks, "measurement");
  if (operation == Operation::reduce_scatter) return sharding::reduce_scatter_of(part, whole, ranks, "measurement");
  return sharding::all_reduce_of(whole, "measurement");
}

}  // namespace

void time_collectives(sharding::RankSession& session, const std::function<void(const CollectiveTimes&)>& done) {
  const int ranks = session.ranks();
  if (ranks == 1) return;
  const std::unique_ptr<sharding::Communicator> world = session.communicator();
  const auto options = at::TensorOptions(at::kFloat).device(session.device());
  // The collectives of the first step are compared on the host before they start. This is that step.
  world->all_reduce(at::zeros({1}, options), "measurement").wait();
  session.end_step();
  for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter, Operation::all_reduce}) {
    for (const int64_t size : kSizes) {
      const int64_t elements = size / int64_t{sizeof(float)} / ranks;
      const at::Tensor part = at::zeros({elements}, options), whole = at::zeros({elements * ranks}, options);
      const Collective collective = make(operation, whole, part, ranks);
      CollectiveTimes times{sharding::name(operation), elements * ranks * int64_t{sizeof(float)}, {}};
      const int64_t samples = std::clamp(kBytesOfAll / size, kFewest, kMost);
      for (int64_t i = 0; i < kWarmUps + samples; ++i) {
        session.barrier();
        const double start = steady_seconds();
        world->start(collective).wait();
        if (session.device().is_cuda()) c10::cuda::device_synchronize();
        if (i >= kWarmUps) times.seconds.push_back(steady_seconds() - start);
      }
      session.heartbeat();
      if (session.rank() == 0) done(times);
    }
  }
  session.pause_watchdog();
}

}  // namespace strata::tools
