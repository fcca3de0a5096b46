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
// SharedMemory remains. Throws Error (out_of_memory) if no process can be started.
//
// The child ends with its parent. It gets no SIGTERM, SIGINT or SIGUSR1, which stop the parent cleanly. The threads of
// the parent do not exist in the child: the function may allocate memory, but must not wait for one of them.
void run_in_child(const std::function<void()>& function);

}  // namespace strata
