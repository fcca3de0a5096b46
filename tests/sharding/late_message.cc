// SPDX-License-Identifier: MIT
// Two ranks. Rank 0 gives up two messages of rank 1 before they are sent. When they come, their memory may belong to
// something else. Ends with 1 if they are written there.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "sharding/communication/mpi_thread.h"
#include "sharding/process/watchdog.h"

namespace strata::sharding {
namespace {

// MPI copies a small message when it arrives. Of a large one it first sends the head only.
constexpr size_t kSmall = 100, kLarge = 4 << 20;
constexpr std::byte kSent{1}, kOfOthers{2};
constexpr int kGo = 1;

using Bytes = std::vector<std::byte>;

bool holds(const Bytes& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [=](std::byte byte) { return byte == value; });
}

// True once a message has arrived that no receive has taken, also none that was given up.
bool arrives(int tag) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int is_there = 0;
  while (!is_there && std::chrono::steady_clock::now() < until) {
    MPI_Iprobe(1, tag, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  }
  return is_there != 0;
}

int receive(MpiThread& thread, int tag) {
  Bytes small(kSmall), large(kLarge);
  std::atomic<bool> waits = false;
  const auto job = thread.submit({"", "two messages"}, [&] {
    MpiThread::Exchange exchange(thread);
    exchange.receive(1, tag, small.data(), small.size());
    exchange.receive(1, tag + 1, large.data(), large.size());
    waits = true;
    exchange.complete();
  });
  while (!waits) std::this_thread::yield();
  thread.abandon();  // from here on this thread may call MPI
  try {
    job->wait();
    std::fprintf(stderr, "messages that were not sent came\n");
    return 1;
  } catch (const Error&) {
  }
  std::fill(small.begin(), small.end(), kOfOthers);
  std::fill(large.begin(), large.end(), kOfOthers);
  MPI_Send(nullptr, 0, MPI_BYTE, 1, kGo, MPI_COMM_WORLD);
  const bool came = arrives(tag) && arrives(tag + 1);
  if (!came || !holds(small, kOfOthers) || !holds(large, kOfOthers)) {
    std::fprintf(stderr, "late messages were %s; written to memory of others: small %d, large %d\n",
                 came ? "not taken" : "taken by a receive that was given up", !holds(small, kOfOthers),
                 !holds(large, kOfOthers));
    return 1;
  }
  // MPI ends only after all messages were received.
  Bytes other(kSmall), another(kLarge);
  MPI_Recv(other.data(), kSmall, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(another.data(), kLarge, MPI_BYTE, 1, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const bool whole = holds(other, kSent) && holds(another, kSent);
  if (!whole) std::fprintf(stderr, "the messages are not what was sent\n");
  MPI_Finalize();
  return whole ? 0 : 1;
}

void send(MpiThread& thread, int tag) {
  const Bytes sent(kLarge, kSent);
  thread.run({"", "its messages"}, [&] {
    MpiThread::Exchange exchange(thread);
    MPI_Recv(nullptr, 0, MPI_BYTE, 0, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    exchange.send(0, tag, sent.data(), kSmall);
    exchange.send(0, tag + 1, sent.data(), kLarge);
    exchange.complete();
  });
  thread.finalize();
}

}  // namespace
}  // namespace strata::sharding

int main() {
  using namespace strata::sharding;
  Watchdog watchdog(/*timeout_seconds=*/30);
  MpiThread thread(watchdog, "a rank");
  const int tag = thread.tags().tag(/*group=*/0, /*kind=*/5);
  if (thread.rank() == 0) return receive(thread, tag);
  send(thread, tag);
  return 0;
}
