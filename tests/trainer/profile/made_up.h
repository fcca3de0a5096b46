// SPDX-License-Identifier: MIT
// Artificial recordings for tests: scopes and launches of the host, and work of the device.
#pragma once

#include <string>

#include "trainer/profile/recording.h"

namespace strata::trainer::profile {

inline constexpr int64_t kLoop = 100, kAutograd = 200, kReader = 300;  // thread ids

struct MadeUp : Recording {
  // Scopes of the loop's thread have number 1 for autograd, scopes of autograd's own thread number 2.
  Scope& add(Scope::Kind kind, const std::string& name, int64_t start, int64_t end, int64_t thread = kLoop) {
    scopes.push_back({name, kind, start, end, thread, -1, thread == kLoop ? 1 : 2, 0});
    return scopes.back();
  }
  void user(const std::string& name, int64_t start, int64_t end, int64_t thread = kLoop) {
    add(Scope::Kind::user, name, start, end, thread);
  }
  // Adds a function that creates autograd node `node`, or none.
  void function(const std::string& name, int64_t start, int64_t end, int64_t node = -1, int64_t thread = kLoop) {
    add(Scope::Kind::function, name, start, end, thread).node = node;
  }
  // Adds the backward of a node that the loop's thread created.
  void backward(const std::string& name, int64_t start, int64_t end, int64_t node, int64_t thread = kAutograd) {
    Scope& scope = add(Scope::Kind::backward, name, start, end, thread);
    scope.node = node;
    scope.node_thread_number = 1;
  }
  // Adds a kernel that `thread` launches at `time`, and its run on the device.
  void kernel(const std::string& name, int64_t time, int64_t start, int64_t end, int64_t thread = kLoop,
              int64_t stream = 7) {
    launches.push_back({"cudaLaunchKernel", time, thread, ++correlation});
    device.push_back({name, start, end, stream, correlation});
  }
  // Adds the launch of a replay. replayed() adds its kernels.
  void graph_launch(int64_t time) { launches.push_back({"cudaGraphLaunch", time, kLoop, ++correlation}); }
  void replayed(const std::string& name, int64_t start, int64_t end, int64_t stream = 7) {
    device.push_back({name, start, end, stream, correlation});
  }
  uint64_t correlation = 0;
};

}  // namespace strata::trainer::profile
