// SPDX-License-Identifier: MIT
#include "sharding/rank_session.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>

#include "base/errors.h"
#include "base/files/text_lines.h"
#include "base/text/word_of.h"
#include "sharding/communication/collective_check.h"
#include "sharding/communication/local_communicator.h"
#include "sharding/communication/mpi_communicator.h"
#include "sharding/communication/mpi_thread.h"
#include "sharding/communication/nccl_communicator.h"
#include "sharding/communication/nccl_environment.h"
#include "sharding/process/end_ranks.h"
#include "sharding/process/failure.h"
#include "sharding/process/gpu_watch.h"
#include "sharding/process/launcher_environment.h"
#include "sharding/process/visible_gpus.h"
#include "sharding/process/watchdog.h"

namespace strata::sharding {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// True between the start and the clean end of MPI.
std::atomic<bool> mpi_is_open{false};

// Ends the other ranks if this rank exits early. mpirun lets them run if a rank exits with 0, and srun lets them run
// after any exit; they would hang until the timeout.
void end_others_at_exit(int status, void*) {
  if (!mpi_is_open.exchange(false)) return;
  if (status == 0) {
    const Failure failure = failure_here(
        ExitCode::communication, "this rank left the run by exit() while the others go on", "see what called exit()");
    std::fprintf(stderr, "rank %d: %s\n", failure.rank, failure.message.c_str());
    report_failure(failure);
    status = static_cast<int>(failure.code);
  }
  end_all_ranks(MpiThread::abort, status);
}

}  // namespace

RankSession::RankSession(const RankSessionOptions& options)
    : exceptions_at_start_(std::uncaught_exceptions()),
      host_(host_name()),
      collective_check_(std::make_unique<CollectiveCheck>(options.compare_collectives_every)) {
  if (!(options.timeout_seconds > 0) || options.compare_collectives_every < 1)
    throw Error(ExitCode::configuration,
                "the timeout must be positive and collectives must be compared every 1 step or more");
  set_report_rank(environment_number("OMPI_COMM_WORLD_RANK", environment_number("PMIX_RANK", 0)));
  watchdog_ = std::make_unique<Watchdog>(options.timeout_seconds);
  if (const int ranks = ranks_of_launcher(); ranks > 1) {
    thread_ = std::make_shared<MpiThread>(
        *watchdog_, "rank " + std::to_string(failure_here(ExitCode::communication, "").rank) + " of " +
                        std::to_string(ranks) + " on " + host_);
    mpi_is_open = true;
    on_exit(end_others_at_exit, nullptr);
    host_group_ = HostGroup(thread_);
    find_local_ranks();
  }
  set_report_rank(rank());
  install_crash_handlers();
}

RankSession::~RankSession() {
  watchdog_->pause_watchdog();
  if (!thread_) return;
  // After an error the other ranks may never get here. The exit code of this process ends them, see end_others_at_exit.
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    thread_->abandon();
    return;
  }
  try {
    host_group_.gather("", "the end of the run");
    thread_->finalize();
    mpi_is_open = false;
  } catch (const std::exception& error) {
    const Failure failure = failure_here(ExitCode::communication, error.what());
    std::fprintf(stderr, "rank %d: %s\n", failure.rank, failure.message.c_str());
    report_failure(failure);
    end_all_ranks(MpiThread::abort, static_cast<int>(failure.code));
  }
}

// Open MPI knows which ranks share a machine, even if machines have the same name. Without Open MPI, host names decide.
void RankSession::find_local_ranks() {
  local_rank_ = environment_number("OMPI_COMM_WORLD_LOCAL_RANK", -1);
  local_ranks_ = environment_number("OMPI_COMM_WORLD_LOCAL_SIZE", -1);
  if (local_rank_ >= 0 && local_ranks_ > 0) return;
  const auto hosts = host_group_.gather(host_, "host names");
  local_rank_ = static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank(), host_));
  local_ranks_ = static_cast<int>(std::count(hosts.begin(), hosts.end(), host_));
}

std::string RankSession::choose_device(DeviceSetting setting) {
  RankDevices mine{host_, local_rank_};
  if (setting != DeviceSetting::cpu) {
    VisibleGpus visible = visible_gpus();
    mine.gpus = std::move(visible.gpus);
    mine.problem = std::move(visible.problem);
  }
  std::vector<RankDevices> all;
  for (const std::string& text : host_group_.gather(to_text(mine), "the devices of the ranks")) {
    all.push_back(parse_rank_devices(text));
  }
  const DeviceChoice choice = choose_devices(setting, all);
  if (!choice.cuda) return choice.reason;
  if (ranks() > 1) {
    std::string wrong;
    for (const std::string& one : host_group_.gather(prepare_nccl_environment(), "the environment of NCCL")) {
      if (wrong.empty()) wrong = one;
    }
    if (!wrong.empty()) throw Error(ExitCode::configuration, wrong);
  }
  device_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(choice.gpu_of_rank[static_cast<size_t>(rank())]));
  c10::cuda::set_device(device_.index());
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
  device_name_ = mine.gpus[static_cast<size_t>(device_.index())].name;
  gpu_watch_ = std::make_unique<GpuWatch>(*watchdog_);
  return choice.reason;
}

std::unique_ptr<Communicator> RankSession::communicator(Gather gather) {
  if (device_.is_cpu() && gather != Gather::shared) {
    throw Error(ExitCode::configuration, "sharding.gather is " + word_of(gather) +
                                             ", which is for GPUs, and this run is on CPUs; expected shared");
  }
  if (ranks() == 1) return std::make_unique<LocalCommunicator>(device_);
  if (device_.is_cuda()) {
    return collective_check_->with_checks(std::make_unique<NcclCommunicator>(host_group_, *gpu_watch_, gather),
                                          host_group_);
  }
  return collective_check_->with_checks(std::make_unique<MpiCommunicator>(host_group_), host_group_);
}

std::string RankSession::transport(Gather gather) const {
  if (ranks() == 1) return "one rank: nothing travels";
  return device_.is_cuda() ? NcclCommunicator::description(gather) : "MPI, tensors of CPUs, sums in rank order";
}

std::vector<std::string> RankSession::gather(const std::string& text) const {
  return host_group_.gather(text, "a gather of texts");
}

std::string RankSession::broadcast(const std::string& text, int root) const {
  if (root < 0 || root >= ranks())
    throw Error(ExitCode::internal, "broadcast from rank " + std::to_string(root) + " of " + std::to_string(ranks()));
  return host_group_.gather(rank() == root ? text : "",
                            "a broadcast from rank " + std::to_string(root))[static_cast<size_t>(root)];
}

void RankSession::barrier() const { host_group_.gather("", "a barrier"); }

void RankSession::require_equal(std::string_view what, const std::string& text) const {
  const auto texts = host_group_.gather(text, "a comparison of the " + std::string(what));
  for (size_t other = 1; other < texts.size(); ++other) {
    if (texts[other] == texts[0]) continue;
    const auto here = lines_of(texts[0]), there = lines_of(texts[other]);
    size_t line = 0;
    while (line < here.size() && line < there.size() && here[line] == there[line]) ++line;
    auto side = [line](size_t rank, const std::vector<std::string>& lines) {
      return "rank " + std::to_string(rank) + (line < lines.size() ? " has `" + lines[line] + "`" : " ends before it");
    };
    throw Error(ExitCode::configuration, "ranks differ in their " + std::string(what) + ", line " +
                                             std::to_string(line + 1) + ": " + side(0, here) + ", " +
                                             side(other, there));
  }
}

void RankSession::end_step() {
  watchdog_->heartbeat();
  collective_check_->end_step();
}

void RankSession::heartbeat() { watchdog_->heartbeat(); }

void RankSession::pause_watchdog() { watchdog_->pause_watchdog(); }

void RankSession::end_soon(int exit_code) { watchdog_->end_soon(exit_code); }

}  // namespace strata::sharding
