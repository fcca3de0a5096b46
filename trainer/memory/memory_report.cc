// SPDX-License-Identifier: MIT
#include "trainer/memory/memory_report.h"

#include <exception>
#include <optional>

#include "base/errors.h"
#include "trainer/memory/refused_memory.h"

namespace strata::trainer {

void report_refused_memory(c10::Device device, const ReportMemory& report, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    const std::optional<std::string> request = refused_by_gpu(error);
    if (!request) throw;
    const DeviceMemory memory = device.is_cuda() ? device_memory(device) : DeviceMemory();
    throw Error(ExitCode::out_of_memory, report(memory, request->substr(0, request->find(". GPU "))));
  }
}

}  // namespace strata::trainer
