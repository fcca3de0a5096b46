// SPDX-License-Identifier: MIT
#include "sharding/communication/mpi_communicator.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "sharding/communication/local_communicator.h"
#include "sharding/communication/mpi_thread.h"
#include "sharding/communication/rank_sum.h"

namespace strata::sharding {
namespace {

constexpr int64_t kRoundBytes = 1 << 18;   // received per rank while the previous round is summed
constexpr int64_t kDirectBytes = 1 << 13;  // up to this size, one round of messages to all ranks is faster

// The group of a job, and its view of a flat buffer: rank i owns elements [offsets[i], offsets[i + 1]).
struct Job {
  HostGroup group;
  int tag;
  c10::ScalarType dtype;
  int64_t element_bytes;
  Reduction reduction;

  int size() const { return group.size(); }
  MpiThread& thread() const { return *group.thread(); }
  template <typename Body>
  void for_each_peer(Body body) const {
    // Starts with the next higher rank, so that not all ranks send to rank 0 first.
    for (int i = 1; i < size(); ++i) {
      const int peer = (group.rank() + i) % size();
      body(peer, group.members()[static_cast<size_t>(peer)]);
    }
  }
};

std::vector<int64_t> even_parts(int64_t count, int ranks) {
  std::vector<int64_t> offsets;
  for (int i = 0; i <= ranks; ++i) offsets.push_back(count * i / ranks);
  return offsets;
}

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

// Every rank receives the parts of all other ranks into `whole`, which already holds its own part.
void exchange_parts(const Job& job, std::byte* whole, const std::vector<int64_t>& offsets) {
  MpiThread::Exchange exchange(job.thread());
  auto part = [&](int rank) { return whole + offsets[static_cast<size_t>(rank)] * job.element_bytes; };
  auto bytes = [&](int rank) {
    return static_cast<size_t>((offsets[static_cast<size_t>(rank) + 1] - offsets[static_cast<size_t>(rank)]) *
                               job.element_bytes);
  };
  const int own = job.group.rank();
  job.for_each_peer([&](int peer, int rank) { exchange.receive(rank, job.tag, part(peer), bytes(peer)); });
  job.for_each_peer([&](int, int rank) { exchange.send(rank, job.tag, part(own), bytes(own)); });
  exchange.complete();
}

// output <- the sum (or what job.reduction is) over ranks of the part of `input` that this rank owns. Messages are sent
// in rounds: the next round is in transit while the current one is summed, and the receive buffers stay small.
void reduce_parts(const Job& job, const std::byte* input, const std::vector<int64_t>& offsets, std::byte* output) {
  const int own = job.group.rank();
  const int64_t step = kRoundBytes / job.element_bytes;
  int64_t largest = 0;
  for (int i = 0; i < job.size(); ++i)
    largest = std::max(largest, offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)]);
  const int64_t rounds = (largest + step - 1) / step;
  std::byte* const staging = job.thread().staging(static_cast<size_t>(2 * job.size() * step * job.element_bytes));
  auto received = [&](int64_t round, int peer) {
    return staging + ((round % 2) * job.size() + peer) * step * job.element_bytes;
  };
  struct Piece {
    int64_t begin, count;
  };
  auto piece = [&](int64_t round, int rank) {
    const int64_t begin = offsets[static_cast<size_t>(rank)] + round * step;
    return Piece{begin, std::clamp<int64_t>(offsets[static_cast<size_t>(rank) + 1] - begin, 0, step)};
  };
  MpiThread::Exchange exchanges[2] = {MpiThread::Exchange(job.thread()), MpiThread::Exchange(job.thread())};
  auto start = [&](int64_t round) {
    if (round >= rounds) return;
    MpiThread::Exchange& exchange = exchanges[round % 2];
    job.for_each_peer([&](int peer, int rank) {
      exchange.receive(rank, job.tag, received(round, peer),
                       static_cast<size_t>(piece(round, own).count * job.element_bytes));
    });
    job.for_each_peer([&](int peer, int rank) {
      const Piece theirs = piece(round, peer);
      exchange.send(rank, job.tag, input + theirs.begin * job.element_bytes,
                    static_cast<size_t>(theirs.count * job.element_bytes));
    });
  };
  std::vector<const void*> parts(static_cast<size_t>(job.size()));
  start(0);
  for (int64_t round = 0; round < rounds; ++round) {
    start(round + 1);
    exchanges[round % 2].complete();
    const Piece mine = piece(round, own);
    for (int peer = 0; peer < job.size(); ++peer)
      parts[static_cast<size_t>(peer)] = peer == own ? input + mine.begin * job.element_bytes : received(round, peer);
    reduce_in_rank_order(job.reduction, job.dtype, parts, output + round * step * job.element_bytes, mine.count);
  }
}

// Every rank sends all of its data to all ranks and reduces what it received: one round of messages.
void reduce_directly(const Job& job, std::byte* data, int64_t count) {
  const size_t bytes = static_cast<size_t>(count * job.element_bytes);
  std::byte* const staging = job.thread().staging(bytes * static_cast<size_t>(job.size()));
  MpiThread::Exchange exchange(job.thread());
  std::vector<const void*> parts(static_cast<size_t>(job.size()), data);
  job.for_each_peer([&](int peer, int rank) {
    std::byte* const theirs = staging + static_cast<size_t>(peer) * bytes;
    parts[static_cast<size_t>(peer)] = theirs;
    exchange.receive(rank, job.tag, theirs, bytes);
  });
  job.for_each_peer([&](int, int rank) { exchange.send(rank, job.tag, data, bytes); });
  exchange.complete();
  reduce_in_rank_order(job.reduction, job.dtype, parts, data, count);
}

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

void all_gather(const Job& job, const Tensor& output, const Tensor& input) {
  std::byte* const own = bytes_of(output) + job.group.rank() * input.numel() * job.element_bytes;
  if (own != bytes_of(input)) std::copy_n(bytes_of(input), input.numel() * job.element_bytes, own);
  exchange_parts(job, bytes_of(output), even_parts(output.numel(), job.size()));
}

void all_reduce(const Job& job, const Tensor& tensor) {
  if (tensor.numel() * job.element_bytes <= kDirectBytes) return reduce_directly(job, bytes_of(tensor), tensor.numel());
  const auto offsets = even_parts(tensor.numel(), job.size());
  std::byte* const own = bytes_of(tensor) + offsets[static_cast<size_t>(job.group.rank())] * job.element_bytes;
  reduce_parts(job, bytes_of(tensor), offsets, own);
  exchange_parts(job, bytes_of(tensor), offsets);
}

void broadcast(const Job& job, const Tensor& tensor, int root) {
  const size_t bytes = static_cast<size_t>(tensor.numel() * job.element_bytes);
  MpiThread::Exchange exchange(job.thread());
  if (job.group.rank() == root)
    job.for_each_peer([&](int, int rank) { exchange.send(rank, job.tag, bytes_of(tensor), bytes); });
  else
    exchange.receive(job.group.members()[static_cast<size_t>(root)], job.tag, bytes_of(tensor), bytes);
  exchange.complete();
}

void all_to_all(const Job& job, const Collective& collective) {
  const auto to = offsets_of(collective.output_counts), from = offsets_of(collective.input_counts);
  std::byte *const output = bytes_of(collective.output), *const input = bytes_of(collective.input);
  MpiThread::Exchange exchange(job.thread());
  auto bytes = [&](const std::vector<int64_t>& offsets, size_t i) {
    return static_cast<size_t>((offsets[i + 1] - offsets[i]) * job.element_bytes);
  };
  job.for_each_peer([&](int peer, int rank) {
    const auto i = static_cast<size_t>(peer);
    exchange.receive(rank, job.tag, output + to[i] * job.element_bytes, bytes(to, i));
  });
  job.for_each_peer([&](int peer, int rank) {
    const auto i = static_cast<size_t>(peer);
    exchange.send(rank, job.tag, input + from[i] * job.element_bytes, bytes(from, i));
  });
  const auto i = static_cast<size_t>(job.group.rank());
  std::copy_n(input + from[i] * job.element_bytes, bytes(from, i), output + to[i] * job.element_bytes);
  exchange.complete();
}

void run(const Job& job, const Collective& collective) {
  const Tensor &output = collective.output, &input = collective.input;
  switch (collective.operation) {
    case Operation::all_gather:
      return all_gather(job, output, input);
    case Operation::reduce_scatter:
      return reduce_parts(job, bytes_of(input), even_parts(input.numel(), job.size()), bytes_of(output));
    case Operation::all_reduce:
    case Operation::all_reduce_max:
      return all_reduce(job, output);
    case Operation::broadcast:
      return broadcast(job, output, collective.root);
    case Operation::all_to_all:
      return all_to_all(job, collective);
  }
}

}  // namespace

MpiCommunicator::MpiCommunicator(HostGroup group) : group_(std::move(group)) {
  TORCH_CHECK(group_.thread(), "a communicator over MPI needs MPI");
}

PendingCollective MpiCommunicator::start(const Collective& collective) {
  if (collective.operation == Operation::all_to_all) {
    const auto own = static_cast<size_t>(rank());
    const int64_t sent = collective.input_counts[own], received = collective.output_counts[own];
    TORCH_CHECK(sent == received, "all_to_all of ", collective.label, ": rank ", own, " sends itself ", sent,
                " elements and receives ", received);
  }
  ++sequence_;
  // Collectives that do not match get different tags: they hang and are reported, and no memory is overwritten.
  const unsigned kind =
      1 + static_cast<unsigned>((collective.hash() + static_cast<uint64_t>(sequence_)) % (group_.kinds() - 1));
  const c10::ScalarType dtype = collective.input.scalar_type();
  const bool is_max = collective.operation == Operation::all_reduce_max;
  const Job job{group_, group_.tag(kind), dtype, static_cast<int64_t>(c10::elementSize(dtype)),
                is_max ? Reduction::largest : Reduction::sum};
  return PendingCollective(
      group_.thread()->submit({group_.name() + ", collective " + std::to_string(sequence_), collective.text()},
                              [job, collective] { run(job, collective); }));
}

Tensor MpiCommunicator::gather_buffer(int64_t elements, at::TensorOptions options) {
  return at::zeros({elements}, options);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  HostGroup part = group_.split(color);
  if (part.size() == 1) return std::make_unique<LocalCommunicator>();
  return std::make_unique<MpiCommunicator>(std::move(part));
}

}  // namespace strata::sharding
