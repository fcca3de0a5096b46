// SPDX-License-Identifier: MIT
// Measures microseconds and processor time of collectives, alone and next to a computation:
//   mpirun -n 2 --bind-to none bazel-bin/tests/sharding/communicator_benchmark
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "sharding/bootstrap.h"

namespace {

using namespace strata::sharding;

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_time() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return 1e6 * static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// A computation of about a millisecond that uses only registers.
float compute(int64_t rounds) {
  float sums[64] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = sum * 0.999f + 1.0f;
  }
  return *std::max_element(sums, sums + 64);
}

struct Measured {
  double microseconds, processor;
};

Measured median(const Bootstrap& bootstrap, const std::function<void()>& body) {
  constexpr int kRepeats = 200;
  for (int i = 0; i < 10; ++i) body();
  std::vector<double> times;
  bootstrap.barrier();
  const double before = processor_time();
  for (int i = 0; i < kRepeats; ++i) {
    const double start = now();
    body();
    times.push_back(now() - start);
  }
  const double processor = (processor_time() - before) / kRepeats;
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return {times[kRepeats / 2], processor};
}

}  // namespace

int main() {
  Bootstrap bootstrap;
  const auto all = bootstrap.communicator();
  bootstrap.end_step();  // no handshakes after this
  volatile float sink = 0;
  const int64_t rounds = 100'000;
  auto say = [&](const char* what, int64_t count, const Measured& measured) {
    if (bootstrap.rank() == 0)
      std::printf("%-44s %8ld  %8.0f us  %8.0f us of processor time per rank\n", what, count, measured.microseconds,
                  measured.processor);
  };
  const Measured alone = median(bootstrap, [&] { sink = sink + compute(rounds); });
  say("computation alone", 0, alone);
  for (const int64_t count : {1, 200'000, 800'000}) {
    const int64_t part = count / all->size(), whole = part * all->size();
    at::Tensor full = at::ones({std::max<int64_t>(whole, 1)}), shard = at::ones({part});
    if (whole > 0) {
      auto gather = [&] { return all->all_gather(full, shard, "full"); };
      auto reduce = [&] { return all->reduce_scatter(shard, full, "shard"); };
      say("all_gather", whole, median(bootstrap, [&] { gather().wait(); }));
      say("reduce_scatter", whole, median(bootstrap, [&] { reduce().wait(); }));
      say("all_gather beside the computation", whole, median(bootstrap, [&] {
            auto pending = gather();
            sink = sink + compute(rounds);
            pending.wait();
          }));
      say("reduce_scatter beside the computation", whole, median(bootstrap, [&] {
            auto pending = reduce();
            sink = sink + compute(rounds);
            pending.wait();
          }));
    }
    say("all_reduce", full.numel(), median(bootstrap, [&] { all->all_reduce(full, "full").wait(); }));
  }
}
