// SPDX-License-Identifier: MIT
// PackageCatalog: the packages of level aot_inductor that lie in folders, found by key and loaded once.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/aot_inductor_abi.h"

namespace strata::kernels {

// What a caller needs: everything that the key is made of, beside the versions of torch and of the recipe.
struct PackageRequest {
  std::string_view op, function, formula;  // formula: the text of <op>.py
  c10::ScalarType dtype;
  std::string widths;        // "d=4096", "d=*": any, "-": there are none
  std::string architecture;  // "x86-64-v3", "sm_90"

  std::string key() const;
  std::string description() const;  // for sentences
};

// One argument of a packaged function, as in the text of its package: "x[n,d]", "host:float32[]".
struct PackagedArgument {
  bool on_host;
  c10::ScalarType dtype;
  std::vector<std::string> dimensions;  // numbers and letters
};

struct PackagedFunction {
  std::string key, op, name, dtype, widths, architecture;
  int64_t limit;  // no tensor may have more elements: indices of 32 bits
  std::vector<PackagedArgument> arguments;
  size_t results;
  std::filesystem::path library;
  size_t bytes;  // of the library, and its hash
  std::string sha1;
  size_t number;  // in the library
};

// A library in memory.
struct PackageLibrary {
  PackageCreate* create;
  PackageRun* run;
};

class PackageCatalog {
 public:
  explicit PackageCatalog(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // The packages beside the program and those in the user's folder.
  static PackageCatalog& of_this_process();

  // Both throw one sentence that says what is wrong and which command makes it right. Thread-safe.
  const PackagedFunction& find(const PackageRequest& request);
  const PackageLibrary& load(const PackagedFunction& function, const PackageRequest& request);

 private:
  struct Contents {
    std::vector<PackagedFunction> functions;
    std::vector<std::string> problems;
  };
  const Contents& contents();

  std::vector<std::filesystem::path> folders_;
  std::mutex mutex_;
  std::optional<Contents> contents_;  // read when a package is asked for first
  std::map<std::filesystem::path, PackageLibrary> libraries_;
};

// How packages and formulas spell a dtype: "bfloat16".
std::string_view package_dtype_name(c10::ScalarType dtype);

}  // namespace strata::kernels
