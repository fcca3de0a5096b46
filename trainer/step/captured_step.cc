// SPDX-License-Identifier: MIT
#include "trainer/step/captured_step.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "base/errors.h"

namespace strata::trainer {

void CapturedStep::capture(const std::function<void()>& rehearse, const std::function<void()>& step) {
  // Frees the cached memory of the eager steps, because the graph has a pool of its own.
  c10::cuda::CUDACachingAllocator::emptyCache();
  rehearse();
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
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const std::shared_ptr<sharding::GpuEvent> begin = watch_.take_event(), end = watch_.take_event();
  begin->record(stream);
  const int64_t watch_id = watch_.watchdog().begin({"", "the captured step"});
  graph_.replay();
  end->record(stream);
  watch_.end_at(watch_id, begin, end);
}

void CapturedStep::release() {
  c10::cuda::device_synchronize();
  graph_.reset();
  captured_ = false;
  c10::cuda::CUDACachingAllocator::emptyCache();
}

}  // namespace strata::trainer
