// SPDX-License-Identifier: MIT
// Collectives of GPU tensors over NCCL, on a stream of their own: streams wait for each other, the host for nothing.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <memory>
#include <string>

#include "sharding/communicator.h"
#include "sharding/gpu_watch.h"
#include "sharding/host_group.h"

namespace strata::sharding {

struct Collective;

// One communicator of NCCL and what watches it; groups of the same ranks share it.
class NcclHandle {
 public:
  NcclHandle(ncclComm_t comm, std::string group, GpuWatch& watch);
  ~NcclHandle();  // while an exception is under way the others may never come: then it is left to the end of the
                  // process
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ncclComm_t get() const { return comm_; }

 private:
  const ncclComm_t comm_;
  GpuWatch& watch_;
  const int64_t check_;
  const int exceptions_at_start_;
};

// All communicators of a process queue on one high-priority stream, so that ranks never start two of them in different
// orders. A collective may be captured into a CUDA graph; it is then watched by whoever replays the graph.
class NcclCommunicator : public Communicator {
 public:
  // Of two ranks or more, each on its current device. Collective over the group.
  NcclCommunicator(HostGroup group, GpuWatch& watch);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  at::Device device() const override { return stream_.device(); }
  PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective all_reduce(Tensor tensor, std::string_view label) override;
  PendingCollective broadcast(Tensor tensor, int root, std::string_view label) override;
  PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override;
  std::unique_ptr<Communicator> split(int color) override;

  // "NCCL 2.28.9, NVLink SHARP off": what the log says.
  static std::string description();

 private:
  NcclCommunicator(HostGroup group, GpuWatch& watch, c10::cuda::CUDAStream stream);

  // Queues call(stream) behind what the current stream has been given so far. `tensors` live until wait().
  template <typename Call>
  PendingCollective start(const Collective& collective, std::vector<Tensor> tensors, Call call);

  HostGroup group_;
  GpuWatch& watch_;
  c10::cuda::CUDAStream stream_;
  std::shared_ptr<NcclHandle> handle_;
  int64_t sequence_ = 0;
};

}  // namespace strata::sharding
