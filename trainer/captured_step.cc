// SPDX-License-Identifier: MIT
#include "trainer/captured_step.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "base/errors.h"
#include "modules/config/kernel_selection.h"

namespace strata::trainer {
std::string why_no_graph(CudaGraph wish, const FaultConfig& fault, const modules::KernelsConfig& kernels,
                         bool new_graphs, bool on_gpu) {
  if (wish == CudaGraph::off) return "cuda_graph is off";
  if (!on_gpu) return "the run is on CPUs";
  if (fault.kind != Fault::none && fault.kind != Fault::slow) return "a fault is to strike inside of a step (fault.do)";
  if (new_graphs) return "each step sees graphs of other sizes (data)";
  if (modules::names_level(kernels, kernels::Level::torchscript)) return "TorchScript compiles while it runs (kernels)";
  return "";
}

void CapturedStep::capture(const std::function<void()>& step) {
  // Frees the cached memory of the eager steps, because the graph has a pool of its own.
  c10::cuda::CUDACachingAllocator::emptyCache();
  try {
    // The mode is relaxed, because threads of the autograd engine, the feed and the GPU watch work during the capture.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
    step();
    graph_.capture_end();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(ExitCode::configuration, std::string("the step cannot be captured as a CUDA graph: ") +
                                             error.what_without_backtrace() +
                                             "\ncuda_graph=off trains without, with the same results");
  }
  captured_ = true;
}

void CapturedStep::replay() {
  const std::shared_ptr<sharding::GpuEvent> done = watch_.take_event();
  const int64_t name = watch_.watchdog().begin({"", "the captured step"});
  graph_.replay();
  done->record(c10::cuda::getCurrentCUDAStream());
  watch_.end_at(name, done);
}

void CapturedStep::release() {
  c10::cuda::device_synchronize();
  graph_.reset();
  captured_ = false;
  c10::cuda::CUDACachingAllocator::emptyCache();
}

}  // namespace strata::trainer
