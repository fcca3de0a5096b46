// SPDX-License-Identifier: MIT
// Prints the folders in which this program looks for packages, as the refusal of one that is nowhere says.
#include <c10/util/Exception.h>

#include <cstdio>

#include "kernels/runtime/aot_inductor_package.h"

int main() {
  using namespace strata::kernels;
  try {
    PackageCatalog::instance().find({"rms_norm", "rms_norm_forward", "", at::kDouble, "d=*", "x86-64-v3"});
  } catch (const c10::Error& error) {
    std::puts(error.what_without_backtrace());
    return 0;
  }
  return 1;
}
