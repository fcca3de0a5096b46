// SPDX-License-Identifier: MIT
// train CONFIG [a.b.c=value ...]: one rank of a run. Started by mpirun or srun; alone it is a run of one rank.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "configs/errors.h"
#include "kernels/device_name.h"
#include "modules/kernel_selection.h"
#include "sharding/bootstrap.h"
#include "sharding/failure.h"
#include "sharding/stop_request.h"
#include "trainer/kernel_plan.h"
#include "trainer/load_config.h"
#include "trainer/run_folder.h"
#include "trainer/trainer.h"

namespace strata::trainer {
namespace {

void set_threads(const RunConfig& config, const sharding::Bootstrap& bootstrap) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : cores / bootstrap.local_ranks();
  at::set_num_threads(std::max(1, threads));
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
}

// Claims the run's folder and writes what describes the run. On rank 0.
std::unique_ptr<RunFolder> claim_folder(const TrainerConfig& config, const std::string& resolved) {
  auto folder = std::make_unique<RunFolder>(config.run.folder);
  const StartQuestion question{.holds_run = folder->holds_run(),
                               .difference = difference_from_folder(config, folder->path("resolved.yaml")),
                               .resume = config.checkpoint.resume != Resume::never,
                               .overwrite = config.run.overwrite};
  if (decide_start(question, config.run.folder) == Start::replace) folder->clear();
  sharding::remove_stale_report(config.run.folder);
  folder->write("resolved.yaml", resolved);
  const int64_t layers = std::visit([](const auto& model) { return model.layers; }, config.model.type);
  const std::string table = modules::kernel_table(config.kernels, layers);
  folder->write("kernels.txt", table);
  std::printf("%s", table.c_str());
  return folder;
}

ExitCode run(LoadedConfig loaded) {
  const TrainerConfig& config = loaded.config;
  apply_kernel_plan(loaded, {kernels::device_name(at::kCPU), kernels::torch_version(), kernels::kernel_version()});
  const std::string resolved = loaded.resolved();
  sharding::Bootstrap bootstrap({.timeout_seconds = config.run.timeout});
  if (bootstrap.ranks() != config.run.ranks) {
    throw Error(ExitCode::configuration, "run.ranks is " + std::to_string(config.run.ranks) + " and " +
                                             std::to_string(bootstrap.ranks()) +
                                             " ranks were started; set run.ranks, or mpirun -n, to the other");
  }
  bootstrap.require_equal("configuration", resolved);
  set_threads(config.run, bootstrap);

  const Ranks ranks{bootstrap.rank(), bootstrap.ranks(),
                    [&](const std::string& text) { return bootstrap.gather(text); }};
  std::unique_ptr<RunFolder> folder;  // holds the lock as long as it lives
  gather_results(ranks, [&] {
    if (ranks.rank == 0) folder = claim_folder(config, resolved);
    return std::string();
  });
  sharding::set_report_folder(config.run.folder);
  sharding::install_stop_handlers();
  return Trainer(config, resolved, bootstrap).train();
}

int fail(ExitCode code, const std::string& message) {
  const sharding::Failure failure = sharding::failure_here(code, message);
  // All ranks may fail alike; the first one speaks.
  if (sharding::report_failure(failure) || failure.rank == 0) {
    std::fprintf(stderr, "strata: rank %d, step %lld, %s: %s\n", failure.rank, static_cast<long long>(failure.step),
                 failure.phase.c_str(), message.c_str());
  }
  return static_cast<int>(code);
}

}  // namespace

int main_guarded(const LoadedConfig& loaded) {
  try {
    return static_cast<int>(run(loaded));
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const c10::OutOfMemoryError& error) {
    return fail(ExitCode::out_of_memory, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::out_of_memory, "the host has no memory left");
  } catch (const c10::Error& error) {
    return fail(ExitCode::internal, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(ExitCode::internal, error.what());
  }
}

}  // namespace strata::trainer

int main(int argc, char** argv) {
  using namespace strata;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help") {
    std::printf("train CONFIG [a.b.c=value ...]\n\n%s", trainer::help_text().c_str());
    return arguments.empty() ? static_cast<int>(ExitCode::configuration) : 0;
  }
  std::optional<trainer::LoadedConfig> loaded;
  try {  // before MPI starts
    loaded = trainer::load_trainer_config(arguments[0], {arguments.begin() + 1, arguments.end()});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return trainer::main_guarded(*loaded);
}
