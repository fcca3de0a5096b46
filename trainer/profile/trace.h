// SPDX-License-Identifier: MIT
// What was recorded of some steps, as plain data: scopes of the host, launches, and work of the device. Nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::trainer::profile {

// A stretch of time on a thread of the host: "step 12", "forward", "layer 3", "linear/cuda", "aten::mm", "MmBackward0".
struct Scope {
  enum class Kind { user, function, backward };
  std::string name;
  Kind kind = Kind::user;
  int64_t start = 0, end = 0;
  int64_t thread = 0;  // the system's id
  // Autograd's link between the forward and the backward: a backward has the number of its node and of the thread that
  // made the node; a function has the number of the next node that its own thread will make, or -1.
  int64_t node = -1, thread_number = 0, node_thread_number = 0;
};

// A call of the driver or the runtime, by which a thread of the host gave work to the device or waited for it.
struct Launch {
  std::string name;  // cudaLaunchKernel, cudaGraphLaunch, cudaStreamSynchronize, ...
  int64_t time = 0, thread = 0;
  uint64_t correlation = 0;  // all the work of one launch has its number
};

// A kernel, a copy or a fill.
struct DeviceWork {
  std::string name;
  int64_t start = 0, end = 0, stream = 0;
  uint64_t correlation = 0;
};

// The autograd nodes that a layer's forward made: [first, end) of a thread's numbers.
struct LayerNodes {
  int64_t layer = 0, thread_number = 0, first = 0, end = 0;
};

struct Trace {
  std::vector<Scope> scopes;
  std::vector<Launch> launches;
  std::vector<DeviceWork> device;
  std::vector<LayerNodes> layers;
};

}  // namespace strata::trainer::profile
