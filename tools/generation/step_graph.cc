// SPDX-License-Identifier: MIT
#include "tools/generation/step_graph.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <string>

#include "base/errors.h"

namespace strata::generation {

at::Tensor StepGraph::run(const std::function<at::Tensor()>& step) {
  if (eager_steps_ < kWarmUpSteps) {
    ++eager_steps_;
    return step();
  }
  if (!graph_) {
    // Nothing runs during a capture, and the default stream cannot be captured.
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    try {
      graph_->capture_begin();
      result_ = step();
      graph_->capture_end();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      throw Error(ExitCode::configuration, std::string("a step of generation cannot be captured as a CUDA graph: ") +
                                               error.what_without_backtrace() +
                                               "\n--cuda-graph off queues each kernel instead, with the same results");
    }
  }
  graph_->replay();
  return result_;
}

}  // namespace strata::generation
