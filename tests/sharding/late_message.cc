// SPDX-License-Identifier: MIT
// Three ranks. Rank 1 sends rank 0 more than it expects, so rank 0 gives up the messages of rank 2 as well. These come
// later, when their memory may belong to something else. Ends with 1 if they are written there.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
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
    MPI_Iprobe(2, tag, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  }
  return is_there != 0;
}

int receive(MpiThread& thread, int tag) {
  Bytes early(8), small(kSmall), large(kLarge);
  try {
    thread.run({"", "three messages"}, [&] {
      MpiThread::Exchange exchange(thread);
      exchange.receive(1, tag, early.data(), early.size());
      exchange.receive(2, tag, small.data(), small.size());
      exchange.receive(2, tag + 1, large.data(), large.size());
      exchange.complete();
    });
    std::fprintf(stderr, "a message that is too long was accepted\n");
    return 1;
  } catch (const Error&) {
  }
  thread.abandon();  // from here on this thread may call MPI
  std::fill(small.begin(), small.end(), kOfOthers);
  std::fill(large.begin(), large.end(), kOfOthers);
  MPI_Send(nullptr, 0, MPI_BYTE, 2, kGo, MPI_COMM_WORLD);
  const bool came = arrives(tag) && arrives(tag + 1);
  if (!came || !holds(small, kOfOthers) || !holds(large, kOfOthers)) {
    std::fprintf(stderr, "late messages were %s; written to memory of others: small %d, large %d\n",
                 came ? "not taken" : "taken by a receive that was given up", !holds(small, kOfOthers),
                 !holds(large, kOfOthers));
    return 1;
  }
  // MPI ends only after all messages were received.
  Bytes other(kSmall), another(kLarge);
  MPI_Recv(other.data(), kSmall, MPI_BYTE, 2, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(another.data(), kLarge, MPI_BYTE, 2, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const bool whole = holds(other, kSent) && holds(another, kSent);
  if (!whole) std::fprintf(stderr, "the messages are not what was sent\n");
  MPI_Finalize();
  return whole ? 0 : 1;
}

void send(MpiThread& thread, int tag) {
  const Bytes sent(kLarge, kSent);
  thread.run({"", "its messages"}, [&] {
    MpiThread::Exchange exchange(thread);
    if (thread.rank() == 1) exchange.send(0, tag, sent.data(), 16);
    if (thread.rank() == 2) {
      MPI_Recv(nullptr, 0, MPI_BYTE, 0, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      exchange.send(0, tag, sent.data(), kSmall);
      exchange.send(0, tag + 1, sent.data(), kLarge);
    }
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
