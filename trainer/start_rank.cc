// SPDX-License-Identifier: MIT
#include "trainer/start_rank.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <thread>

#include "kernels/level_matrix.h"
#include "kernels/runtime/device_name.h"
#include "kernels/runtime/gpus.h"
#include "kernels/runtime/product_sums.h"
#include "sharding/process/failure.h"
#include "trainer/levels/kernel_plan.h"
#include "trainer/levels/level_check.h"
#include "trainer/levels/untimed_formats.h"
#include "trainer/memory/refused_memory.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {
namespace {

// Must run before the first call of CUDA's libraries, because they read the environment in it.
void prepare_determinism(const RunConfig& config) {
  // cuBLAS is deterministic only with a workspace of fixed size.
  if (config.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
  // If this stayed on, every new tensor would first be filled with NaN: a pass over all memory that a step writes.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

// The number of cores on which this process may run, as taskset and schedulers limit it. On a machine with more cores
// than a cpu_set_t has bits, the call fails, and it is the number of all cores.
int64_t usable_cores() {
  cpu_set_t cores;
  const bool is_known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  return is_known ? CPU_COUNT(&cores) : std::thread::hardware_concurrency();
}

// OMP_NUM_THREADS is read here, because LibTorch takes at most the physical cores of the machine from it.
int64_t threads_without_key(int64_t local_ranks) {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const int64_t asked_threads = text == nullptr ? 0 : std::strtoll(text, nullptr, /*base=*/10);
  return asked_threads > 0 ? asked_threads : usable_cores() / local_ranks;
}

// MKL chooses the code of its vector functions at the first call of one. If several threads are in that call, one of
// them may run other code, and the last digits of the first step differ in about one of fifty runs. A call for one
// element is made by one thread.
void choose_vector_code() { at::exp(at::zeros({1})); }

// By default malloc returns the memory of large tensors to the system as soon as they are freed. Faulting the pages in
// again took a third of the processor time of a step on a graph of 82,115 nodes.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

void decide_device(LoadedConfig& loaded, sharding::RankSession& session) {
  sharding::DeviceSetting& device = loaded.config.run.device;
  const bool was_automatic = device == sharding::DeviceSetting::automatic;
  const std::string reason = session.choose_device(device);
  if (session.rank() == 0) {
    const std::string transport = session.transport(loaded.config.sharding.gather);
    std::printf("device: %s\ncommunication: %s\n", reason.c_str(), transport.c_str());
  }
  if (!was_automatic) return;
  device = session.device().is_cuda() ? sharding::DeviceSetting::cuda : sharding::DeviceSetting::cpu;
  configs::Place& place = loaded.places["run.device"];
  place.source = std::make_shared<configs::Source>(configs::Source{.name = "auto", .text = ""});
  place.line = 0;
}

int fail(ExitCode code, const std::string& message) {
  sharding::print_failure(sharding::failure_here(code, message));
  return static_cast<int>(code);
}

}  // namespace

int64_t threads_of(const RunConfig& run, int64_t local_ranks) {
  return std::clamp<int64_t>(run.threads > 0 ? run.threads : threads_without_key(local_ranks), 1, 4096);
}

// A host with an older build or another wheel computes other numbers, or waits in other collectives.
void require_equal_builds(const sharding::RankSession& session, const Build& build) {
  session.require_equal("builds", "LibTorch " + build.libtorch + "\nkernels " + build.kernels + "\n" + build.transport);
}

void start_rank(LoadedConfig& loaded, sharding::RankSession& session) {
  const RunConfig& run = loaded.config.run;
  if (session.ranks() != run.ranks) {
    throw Error(ExitCode::configuration, "run.ranks is " + std::to_string(run.ranks) + " and " +
                                             std::to_string(session.ranks()) +
                                             " ranks were started; set run.ranks, or mpirun -n, to the other");
  }
  session.require_equal("configuration", loaded.resolved());
  at::set_num_threads(static_cast<int>(threads_of(run, session.local_ranks())));
  choose_vector_code();
  prepare_determinism(run);
  kernels::accumulate_products_in_fp32();
  decide_device(loaded, session);
  require_equal_builds(session, {.libtorch = kernels::torch_version(),
                                 .kernels = kernels::kernel_version(),
                                 .transport = session.transport(loaded.config.sharding.gather)});
  if (session.device().is_cpu()) keep_freed_memory();
  if (!loaded.config.kernels.default_level) {
    const std::string kept_layers =
        apply_kernel_plan(loaded, {kernels::device_name(session.device()), kernels::torch_version(),
                                   kernels::kernel_version(), declared_model(loaded.config).modules});
    if (!kept_layers.empty() && session.rank() == 0) std::printf("%s\n", kept_layers.c_str());
    session.require_equal("configuration with the levels of its kernel plan", loaded.resolved());
  }
  const std::vector<modules::DeclaredModule> modules = declared_model(loaded.config).modules;
  require_complete_plan(loaded, modules);
  kernels::set_architecture(static_cast<int>(loaded.config.kernels.architecture.value_or(0)));
  check_levels(loaded, modules, kernels::target_of(session.device()));
  const std::string untimed = untimed_formats(loaded, modules);
  if (!untimed.empty() && session.rank() == 0) std::printf("warning: %s\n", untimed.c_str());
  const std::string unreached = unreached_scaling(loaded.config.model);
  if (!unreached.empty() && session.rank() == 0) std::printf("warning: %s\n", unreached.c_str());
}

int exit_code_of(const std::function<ExitCode()>& run) {
  try {
    return static_cast<int>(run());
  } catch (const ReportedFailure& failure) {
    return failure.exit_code();
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::out_of_memory, "the host has no memory left");
  } catch (const std::exception& error) {
    if (const auto request = refused_by_gpu(error)) return fail(ExitCode::out_of_memory, *request);
    if (const auto request = refused_by_host(error)) {
      return fail(ExitCode::out_of_memory,
                  "the host has no memory left: " + *request + "; a smaller micro_batch and more ranks need less");
    }
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    return fail(ExitCode::internal, torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
  }
}

}  // namespace strata::trainer
