// SPDX-License-Identifier: MIT
// Work in a process of its own, for code that changes what belongs to its whole process, such as the handlers of
// signals.
#pragma once

#include <cstddef>
#include <functional>

namespace strata {

// Memory that a child process shares with its parent. It is zero at first.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

// Calls the function in a child process and returns when that process has ended. Only what the function writes to
// SharedMemory is left of it. Throws Error (out_of_memory) if there can be no process more.
//
// The child ends with its parent. It gets no SIGTERM, SIGINT or SIGUSR1, which stop the parent cleanly. It has no other
// threads than its own: the function may allocate memory, but must not wait for a thread of the parent.
void run_in_child(const std::function<void()>& function);

}  // namespace strata
