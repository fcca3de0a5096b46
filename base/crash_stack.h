// SPDX-License-Identifier: MIT
// A stack for the handlers of crashes, which have no other one after a stack overflow.
#pragma once

#include <csignal>
#include <cstddef>
#include <memory>

namespace strata {

// While it lives, handlers of signals with SA_ONSTACK run on it in the thread that has made it. Each thread needs its
// own: threads of libraries have none, so their stack overflows end the process without a report.
class CrashStack {
 public:
  CrashStack() {
    const stack_t stack = {.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kBytes};
    sigaltstack(&stack, nullptr);
  }
  ~CrashStack() {
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;

 private:
  static constexpr size_t kBytes = 1 << 16;
  const std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(kBytes);
};

}  // namespace strata
