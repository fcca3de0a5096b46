// SPDX-License-Identifier: MIT
// Collectives of GPU tensors over NCCL on a separate stream. Streams wait for each other; the host does not wait.
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

// A communicator of NCCL with its symmetric memory and its error check. Groups of the same ranks share it.
class NcclHandle : public std::enable_shared_from_this<NcclHandle> {
 public:
  NcclHandle(ncclComm_t comm, std::string group, GpuWatch& watch);
  ~NcclHandle();  // during an exception the communicator is not destroyed, because other ranks may never get here
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ncclComm_t get() const { return comm_; }
  // Allocates zeros in memory that every rank can reach (a symmetric window). This is a collective. The tensor keeps
  // this communicator alive. Throws (configuration) if ranks cannot reach each other's memory, because NCCL would then
  // use kernels instead of copy engines.
  Tensor window(int64_t elements, at::TensorOptions options);

 private:
  const ncclComm_t comm_;
  const std::string group_;
  GpuWatch& watch_;
  const int64_t check_;
  const int exceptions_at_start_;
};

// A communicator and all that are split from it queue on one high-priority stream, so that ranks never start two
// collectives in different orders. With Gather::separate or Gather::copy_engines, all-gathers have their own
// communicator and high-priority stream. A collective may be captured into a CUDA graph; then the code that replays the
// graph must watch it.
class NcclCommunicator : public Communicator {
 public:
  // Requires two or more ranks, each on its current device. This is a collective over the group.
  NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather = Gather::shared);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  at::Device device() const override { return all_.stream.device(); }
  // Queues the collective after all work that the current stream has so far. Its tensors stay alive until wait().
  PendingCollective start(const Collective& collective) override;
  // For Gather::copy_engines, a separate window of whole megabytes; otherwise memory of LibTorch. Throws
  // (configuration) if copy engines would have to reach another host, because NCCL would use its network instead.
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

  // A text for the log, such as "NCCL 2.28.9, one high-priority stream, ...".
  static std::string description(Gather gather);

 private:
  // A communicator of NCCL and its stream.
  struct Lane {
    c10::cuda::CUDAStream stream;
    std::shared_ptr<NcclHandle> handle;
  };
  NcclCommunicator(HostGroup group, GpuWatch& watch, Gather gather, Lane all, Lane gathers);
  Lane new_lane(bool copy_engines);
  void require_one_host();
  // Returns the lane of the ranks with the same color.
  Lane split(const Lane& lane, bool copy_engines, const HostGroup& part, int color);

  HostGroup group_;
  GpuWatch& watch_;
  Gather gather_;
  Lane all_, gathers_;  // the same lane for Gather::shared
  int64_t sequence_ = 0;
  bool is_on_one_host_ = false;  // true after require_one_host()
};

}  // namespace strata::sharding
