// SPDX-License-Identifier: MIT
// The start and the end of a rank: who we are, how ranks meet on the host, and that nobody is left hanging.
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
class PlanCheck;
class Watchdog;

struct BootstrapOptions {
  double timeout_seconds = 300;  // until a collective or a step that does not end is reported and ends the run
  int compare_plans_every = 10;  // steps; in the first step every collective is compared before it starts
};

// One per process. Under mpirun or srun with several ranks it starts MPI; a rank alone never touches MPI. Leaving the
// scope ends MPI together with all others; leaving it by an exception, or exit() before that, ends all ranks.
class Bootstrap {
 public:
  explicit Bootstrap(const BootstrapOptions& options = {});
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return host_group_.rank(); }
  int ranks() const { return host_group_.size(); }
  int local_rank() const { return local_rank_; }    // among the ranks of this host
  int local_ranks() const { return local_ranks_; }  // of this host
  const std::string& host() const { return host_; }

  // Decides where this rank computes, together with all others; without it, on the CPU. On a GPU, the device is made
  // current in the calling thread, with a stream that is not the default one: those cannot be captured. Once, before
  // the first communicator. Returns a sentence for the log. Throws (configuration) what stands in the way.
  std::string choose_device(DeviceWish wish);
  at::Device device() const { return device_; }
  const std::string& device_name() const { return device_name_; }  // "NVIDIA H200"

  // All ranks, for tensors on device(). Collectives are compared between ranks and watched. Throws (configuration) when
  // CPUs are asked for another way to gather than `shared`.
  std::unique_ptr<Communicator> communicator(Gather gather = Gather::shared);
  // How they travel: a sentence for the log.
  std::string transport(Gather gather = Gather::shared) const;

  // Host-side messages; all ranks call them in the same order. gather gives all texts in rank order to every rank.
  std::vector<std::string> gather(const std::string& text) const;
  std::string broadcast(const std::string& text, int root) const;
  void barrier() const;
  // Throws (configuration) on every rank when `text` differs between ranks: names the ranks and the first line that
  // differs.
  void require_equal(std::string_view what, const std::string& text) const;

  // The training loop says so after each step: compares the plans of the ranks when it is time, and is a sign of life.
  void end_step();
  // A sign of life within long phases (evaluation, checkpoints): the timeout starts anew.
  void progress();
  // The training loop is over or pauses: no step is expected until the next progress() or end_step().
  void rest();

  const HostGroup& host_group() const { return host_group_; }  // all ranks
  GpuWatch& gpu_watch() { return *gpu_watch_; }                // on a GPU only

 private:
  void find_local_ranks();

  const int exceptions_at_start_;
  std::string host_;
  int local_rank_ = 0, local_ranks_ = 1;
  at::Device device_ = at::kCPU;
  std::string device_name_ = "cpu";
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<GpuWatch> gpu_watch_;  // null on CPUs
  std::shared_ptr<MpiThread> thread_;    // null for a rank alone
  HostGroup host_group_;
  std::unique_ptr<PlanCheck> plan_check_;
};

}  // namespace strata::sharding
