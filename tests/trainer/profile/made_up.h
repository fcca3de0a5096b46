// SPDX-License-Identifier: MIT
// Traces made up for tests: the host's scopes and launches, and the device's work.
#pragma once

#include <string>

#include "trainer/profile/trace.h"

namespace strata::trainer::profile {

inline constexpr int64_t kLoop = 100, kAutograd = 200, kReader = 300;  // threads, as the system numbers them

struct MadeUp : Trace {
  // Scopes of the loop's thread have the number 1 for autograd, those of its own thread 2.
  Scope& add(Scope::Kind kind, const std::string& name, int64_t start, int64_t end, int64_t thread = kLoop) {
    scopes.push_back({name, kind, start, end, thread, -1, thread == kLoop ? 1 : 2, 0});
    return scopes.back();
  }
  void user(const std::string& name, int64_t start, int64_t end, int64_t thread = kLoop) {
    add(Scope::Kind::user, name, start, end, thread);
  }
  // A function that makes autograd's node number `node`, or leaves it to the next.
  void function(const std::string& name, int64_t start, int64_t end, int64_t node = -1, int64_t thread = kLoop) {
    add(Scope::Kind::function, name, start, end, thread).node = node;
  }
  // The backward of a node of the loop's thread.
  void backward(const std::string& name, int64_t start, int64_t end, int64_t node, int64_t thread = kAutograd) {
    Scope& scope = add(Scope::Kind::backward, name, start, end, thread);
    scope.node = node;
    scope.node_thread_number = 1;
  }
  // A kernel that `thread` launches at `time`, and when it runs.
  void kernel(const std::string& name, int64_t time, int64_t start, int64_t end, int64_t thread = kLoop,
              int64_t stream = 7) {
    launches.push_back({"cudaLaunchKernel", time, thread, ++correlation});
    device.push_back({name, start, end, stream, correlation});
  }
  // A replay, whose kernels replayed() adds.
  void graph_launch(int64_t time) { launches.push_back({"cudaGraphLaunch", time, kLoop, ++correlation}); }
  void replayed(const std::string& name, int64_t start, int64_t end, int64_t stream = 7) {
    device.push_back({name, start, end, stream, correlation});
  }
  uint64_t correlation = 0;
};

}  // namespace strata::trainer::profile
