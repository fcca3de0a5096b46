// SPDX-License-Identifier: MIT
// A rank of a run, from its start to its end: how ranks find each other, exchange texts on the host, and are never left
// hanging.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"
#include "sharding/config/device_choice.h"
#include "sharding/config/sharding_config.h"

namespace strata::sharding {

class GpuWatch;
class MpiThread;
class CollectiveCheck;
class Watchdog;

struct RankSessionOptions {
  double timeout_seconds = 300;  // seconds until a collective or a step that does not end is reported and ends the run
  int compare_collectives_every = 10;  // steps; in the first step every collective is compared before it starts
};

// Create one per process. Under mpirun or srun with several ranks it starts MPI; a single rank never calls MPI. The
// destructor ends MPI together with all other ranks. If the scope is left by an exception, or exit() is called earlier,
// all ranks are ended.
class RankSession {
 public:
  explicit RankSession(const RankSessionOptions& options = {});
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  int rank() const { return host_group_.rank(); }
  int ranks() const { return host_group_.size(); }
  int local_rank() const { return local_rank_; }    // index of this rank on its host
  int local_ranks() const { return local_ranks_; }  // number of ranks on this host
  const std::string& host() const { return host_; }

  // Decides together with all other ranks on which device this rank computes; without this call, it is the CPU. A GPU
  // becomes the current device of the calling thread, with a stream other than the default stream, because the default
  // stream cannot be captured. Call it once, before the first communicator() call. Returns a sentence for the log.
  // Throws (configuration) if a device cannot be used.
  std::string choose_device(DeviceSetting setting);
  at::Device device() const { return device_; }
  const std::string& device_name() const { return device_name_; }  // "NVIDIA H200"

  // Returns a communicator of all ranks for tensors on device(). Its collectives are compared between ranks and watched
  // for hangs. Throws (configuration) if device() is a CPU and `gather` is not `shared`.
  std::unique_ptr<Communicator> communicator(Gather gather = Gather::shared);
  // Describes the transport of the collectives in a sentence for the log.
  std::string transport(Gather gather = Gather::shared) const;

  // Exchange texts between ranks on the host; all ranks call these functions in the same order. gather returns the
  // texts of all ranks, in rank order, on every rank.
  std::vector<std::string> gather(const std::string& text) const;
  std::string broadcast(const std::string& text, int root) const;
  void barrier() const;
  // Throws (configuration) on every rank if `text` differs between ranks. The error names the ranks and the first line
  // that differs.
  void require_equal(std::string_view what, const std::string& text) const;

  // The training loop calls this after each step. It counts as a heartbeat, and compares the collectives of the ranks
  // every `compare_collectives_every` steps.
  void end_step();
  // A heartbeat within long phases (evaluation, checkpoints): the timeout starts again.
  void heartbeat();
  // Pauses the watchdog when the training loop ends or pauses: no step is expected until the next heartbeat() or
  // end_step().
  void pause_watchdog();
  // Ends the run with this exit code after at most 5 s, even if destructors hang. Call it after a failure was reported.
  void end_soon(int exit_code);

  const HostGroup& host_group() const { return host_group_; }  // all ranks
  GpuWatch& gpu_watch() { return *gpu_watch_; }                // requires a GPU

 private:
  void find_local_ranks();

  const int exceptions_at_start_;
  std::string host_;
  int local_rank_ = 0, local_ranks_ = 1;
  at::Device device_ = at::kCPU;
  std::string device_name_ = "cpu";
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<GpuWatch> gpu_watch_;  // null on CPUs
  std::shared_ptr<MpiThread> thread_;    // null for a single rank
  HostGroup host_group_;
  std::unique_ptr<CollectiveCheck> collective_check_;
};

}  // namespace strata::sharding
