// SPDX-License-Identifier: MIT
#include "base/child_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <string>

#include "base/errors.h"

namespace strata {
namespace {

[[noreturn]] void work(const std::function<void()>& function, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) {  // otherwise the parent has ended before the call
    try {
      function();
    } catch (...) {
      _exit(1);
    }
  }
  _exit(0);
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes)
    : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  if (data_ == MAP_FAILED) throw std::bad_alloc();
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

void run_in_child(const std::function<void()>& function) {
  sigset_t stops, before;
  sigemptyset(&stops);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&stops, signal);
  pthread_sigmask(SIG_BLOCK, &stops, &before);  // a child begins with the mask of the thread that makes it
  const pid_t parent = getpid(), child = fork();
  if (child == 0) work(function, parent);
  const int reason = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    throw Error(ExitCode::out_of_memory, std::string("a child process cannot be made: ") + std::strerror(reason));
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace strata
