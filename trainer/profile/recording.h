// SPDX-License-Identifier: MIT
// The recording of some steps as plain data: scopes of the host, launches, and work of the device. Times are in
// nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/op_shape.h"

namespace strata::trainer::profile {

// A time interval on a host thread: "step 12", "forward", "layer 3", "linear/cuda", "aten::mm", "MmBackward0".
struct Scope {
  enum class Kind { user, function, backward };
  std::string name;
  Kind kind = Kind::user;
  int64_t start = 0, end = 0;
  int64_t thread = 0;  // thread id of the operating system
  // These numbers link the forward and the backward. A backward has the sequence number of its node and the number of
  // the thread that created the node. A function has the number of the next node that its own thread will create, or
  // -1.
  int64_t node = -1, thread_number = 0, node_thread_number = 0;
  // The minimal work of the call of an op that this scope is, and of the backward of this call by autograd.
  kernels::Work work = {}, work_of_backward = {};
};

// A call of the CUDA driver or runtime by which a host thread gave work to the device or waited for it.
struct Launch {
  std::string name;  // cudaLaunchKernel, cudaGraphLaunch, cudaStreamSynchronize, ...
  int64_t time = 0, thread = 0;
  uint64_t correlation = 0;  // shared by a launch and all of its work
};

// A kernel, a copy or a fill on the device.
struct DeviceWork {
  std::string name;
  int64_t start = 0, end = 0, stream = 0;
  uint64_t correlation = 0;
};

// The autograd nodes that a layer's forward created: sequence numbers [first, end) of a thread.
struct LayerNodes {
  int64_t layer = 0, thread_number = 0, first = 0, end = 0;
};

struct Recording {
  std::vector<Scope> scopes;
  std::vector<Launch> launches;
  std::vector<DeviceWork> device;
  std::vector<LayerNodes> layers;
};

}  // namespace strata::trainer::profile
