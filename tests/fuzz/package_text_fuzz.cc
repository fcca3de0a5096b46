// SPDX-License-Identifier: MIT
// Fuzzes the texts of compiled packages. A word KEY in an input becomes the key of the function that is asked for,
// which depends on the version of LibTorch.
#include <c10/util/Exception.h>

#include "kernels/runtime/aot_inductor_package.h"
#include "tests/fuzz/harness/input_files.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.txt";
constexpr std::string_view kKeyWord = "KEY";

void parse(std::string_view bytes) {
  const kernels::PackageRequest request = {.op = "rms_norm",
                                           .function = "forward",
                                           .formula = "",
                                           .dtype = c10::kFloat,
                                           .widths = "d=*",
                                           .architecture = "x86-64-v3"};
  std::string text(bytes);
  if (const size_t at = text.find(kKeyWord); at != std::string::npos) text.replace(at, kKeyWord.size(), request.key());
  write_input(kFile, text);
  kernels::PackageCatalog catalog({input_folder()});
  try {
    require(catalog.find(request).key == request.key(), "a function with another key");
  } catch (const c10::Error& error) {
    throw Error(ExitCode::internal, error.what_without_backtrace());
  }
}

}  // namespace

// The message shows a wrong line as it is.
const Target kTarget = {.refusal = ExitCode::internal, .file = "strata-", .parse = parse, .plain_messages = false};

}  // namespace strata::fuzz
