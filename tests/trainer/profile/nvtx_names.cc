// SPDX-License-Identifier: MIT
// Replaces an NVIDIA profiler. NVTX loads this library through NVTX_INJECTION64_PATH. It writes the name of each range
// that a thread opens as a line of the file in STRATA_TEST_NVTX_FILE.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

int NVTX_API push(const char* name) {
  static std::mutex mutex;
  static std::FILE* const file = std::fopen(std::getenv("STRATA_TEST_NVTX_FILE"), "a");
  const std::lock_guard lock(mutex);
  std::fprintf(file, "%s\n", name);
  std::fflush(file);
  return 0;
}

int NVTX_API pop() { return 0; }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
