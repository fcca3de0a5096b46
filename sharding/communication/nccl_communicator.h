// SPDX-License-Identifier: MIT
// Collectives of GPU tensors over NCCL, on a stream of their own: streams wait for each other, the host for nothing.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <memory>
#include <string>

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"
#include "sharding/config/sharding_config.h"
#include "sharding/process/gpu_watch.h"

namespace strata::sharding {

struct Collective;

// One communicator of NCCL, the memory that its ranks know of each other, and what watches it; groups of the same ranks
// share it.
class NcclHandle : public std::enable_shared_from_this<NcclHandle> {
 public:
  NcclHandle(ncclComm_t comm, std::string group, GpuWatch& watch);
  ~NcclHandle();  // while an exception is under way the others may never come: then it is left to the end of the
                  // process
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ncclComm_t get() const { return comm_; }
  // Zeros that every rank can reach (a symmetric window). Collective. The tensor keeps this communicator alive. Throws
  // (configuration) where ranks cannot reach each other: copy engines would leave it to kernels.
  Tensor window(int64_t elements, at::TensorOptions options);

 private:
  const ncclComm_t comm_;
  const std::string group_;
  GpuWatch& watch_;
  const int64_t check_;
  const int exceptions_at_start_;
};

// All communicators of a process queue on one high-priority stream, so that ranks never start two of them in different
// orders; with Gather::separate or copy_engines, all-gathers have a communicator and such a stream of their own. A
// collective may be captured into a CUDA graph; it is then watched by whoever replays the graph.
class NcclCommunicator : public Communicator {
 public:
  // Of two ranks or more, each on its current device. Collective over the group.
  NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather = Gather::shared);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  at::Device device() const override { return all_.stream.device(); }
  PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective all_reduce(Tensor tensor, std::string_view label) override;
  PendingCollective broadcast(Tensor tensor, int root, std::string_view label) override;
  PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override;
  // For Gather::copy_engines a window of its own, of whole megabytes; else LibTorch's memory.
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

  // "NCCL 2.28.9, one high-priority stream, ...": what the log says.
  static std::string description(Gather gather);

 private:
  // A communicator of NCCL and the stream that it queues on.
  struct Lane {
    c10::cuda::CUDAStream stream;
    std::shared_ptr<NcclHandle> handle;
  };
  NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather, Lane all, Lane gathers);
  Lane new_lane(bool copy_engines);
  // The lane of the ranks with the same color.
  Lane split(const Lane& lane, bool copy_engines, const HostGroup& part, int color);

  // Queues call(communicator, stream) behind what the current stream has been given so far. `tensors` live until
  // wait().
  template <typename Call>
  PendingCollective start(const Lane& lane, const Collective& collective, std::vector<Tensor> tensors, Call call);

  HostGroup group_;
  GpuWatch& watch_;
  Gather gather_;
  Lane all_, gathers_;  // the same one for Gather::shared
  int64_t sequence_ = 0;
};

}  // namespace strata::sharding
