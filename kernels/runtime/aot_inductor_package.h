// SPDX-License-Identifier: MIT
// PackageCatalog: finds packages of level aot_inductor in folders by their keys, and loads each one once.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct AtenTensorOpaque;  // LibTorch's C handle of a tensor

namespace strata::kernels {

// The shared library of a package has two C functions, which tools/aot_inductor/package.py generates.
// The functions of a package are numbered in the order of its text file. Both C functions return nullptr, or an error
// message that the caller frees.
// PackageCreate makes one model of one function on `device`, "cpu" or "cuda:0".
using PackageCreate = char*(size_t function, const char* device, void** model);
// PackageRun takes ownership of the input handles and gives ownership of the output handles to the caller. A model runs
// one call at a time.
using PackageRun = char*(size_t function, void* model, AtenTensorOpaque** inputs, AtenTensorOpaque** outputs,
                         void* stream);

inline constexpr const char* kPackageCreate = "strata_package_create";
inline constexpr const char* kPackageRun = "strata_package_run";

// The function that a caller needs. Its key is a hash of these fields, of the version of torch, of <op>_programs.py and
// of the files of tools/aot_inductor that compile it.
struct PackageRequest {
  std::string_view op, function, formula;  // formula: the text of <op>.py
  c10::ScalarType dtype;
  std::string widths;        // "d=4096", "d=*": any width, "-": the function has no widths
  std::string architecture;  // "x86-64-v3", "sm_90"

  std::string key() const;
  std::string description() const;  // for error messages
};

// One argument of a packaged function, in the text of its package: "x[n,d]", "host:float32[]".
struct PackagedArgument {
  bool on_host;
  c10::ScalarType dtype;
  std::vector<std::string> dimensions;  // numbers and letters
};

struct PackagedFunction {
  std::string key, op, name, dtype, widths, architecture;
  int64_t limit;  // largest number of elements of a tensor, because indices have 32 bits
  std::vector<PackagedArgument> arguments;
  size_t results;
  std::filesystem::path library;
  size_t bytes;  // size of the library
  std::string sha1;
  size_t number;  // index of the function in the library
};

// The two functions of a library that is loaded.
struct PackageLibrary {
  PackageCreate* create;
  PackageRun* run;
};

class PackageCatalog {
 public:
  explicit PackageCatalog(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // The catalog of the packages beside the program and in the user's folder.
  static PackageCatalog& instance();

  // find() and load() throw a c10::Error that says what is wrong and which command fixes it. Both are thread-safe.
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
  std::optional<Contents> contents_;  // read when the first package is needed
  std::map<std::filesystem::path, PackageLibrary> libraries_;
};

// The name of a dtype in packages and formulas: "bfloat16".
std::string_view package_dtype_name(c10::ScalarType dtype);

}  // namespace strata::kernels
