// SPDX-License-Identifier: MIT
#include "kernels/runtime/aot_inductor_package.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "kernels/runtime/package_sources.h"
#include "kernels/runtime/trusted_file.h"

namespace strata::kernels {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "make it with: tools/strata packages CONFIG";

constexpr std::array<std::pair<std::string_view, c10::ScalarType>, 7> kDtypes = {{{"float32", c10::kFloat},
                                                                                  {"bfloat16", c10::kBFloat16},
                                                                                  {"float16", c10::kHalf},
                                                                                  {"float64", c10::kDouble},
                                                                                  {"int64", c10::kLong},
                                                                                  {"int32", c10::kInt},
                                                                                  {"bool", c10::kBool}}};

std::optional<c10::ScalarType> dtype_from(std::string_view text) {
  for (const auto& [dtype_name, dtype] : kDtypes) {
    if (dtype_name == text) return dtype;
  }
  return std::nullopt;
}

std::string sha1(const std::string& text) { return c10::sha1{text}.str(); }

// The hash of kernels/<op>/<op>_programs.py.
std::string_view programs_of(std::string_view op) {
  for (const auto& [known, hash] : kProgramSources) {
    if (known == op) return hash;
  }
  return "none";
}

// A text that is no package's may be one line of megabytes.
std::string shown(const std::string& text) { return text.size() > 100 ? text.substr(0, 100) + "..." : text; }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Parses "host:float32[]" or "x[n,d]", where x is the dtype of the package.
PackagedArgument argument_from(std::string text, std::string_view package_dtype) {
  constexpr std::string_view kHost = "host:";
  PackagedArgument argument;
  argument.on_host = text.starts_with(kHost);
  if (argument.on_host) text.erase(0, kHost.size());
  const size_t open = text.find('[');
  TORCH_CHECK_VALUE(open != std::string::npos && text.ends_with(']'), "expected an argument, got ", shown(text));
  const std::string dtype = text.substr(0, open);
  const auto known = dtype_from(dtype == "x" ? package_dtype : dtype);
  TORCH_CHECK_VALUE(known.has_value(), "expected a known dtype, got ", shown(text));
  argument.dtype = *known;
  argument.dimensions = split(text.substr(open + 1, text.size() - open - 2), ',');
  return argument;
}

// Reads the text file of a package. Throws if it is malformed or if others can write it.
std::vector<PackagedFunction> read_text(const fs::path& path) {
  std::istringstream file(TrustedFile(path).read());
  const auto line = [&](std::string_view start) {
    std::string text;
    TORCH_CHECK_VALUE(std::getline(file, text) && text.starts_with(start), "expected '", start, "'");
    return text.substr(start.size());
  };
  TORCH_CHECK_VALUE(line("strata package ") == "1", "expected version 1");
  const std::string name = line("library ");
  TORCH_CHECK_VALUE(!name.empty() && fs::path(name).filename() == name,
                    "expected the name of a library in the same folder, got '", shown(name), "'");
  const fs::path library = path.parent_path() / name;
  const size_t bytes = std::stoull(line("bytes "));
  const std::string hash = line("sha1 ");
  std::vector<PackagedFunction> functions;
  for (std::string text; std::getline(file, text);) {
    const std::vector<std::string> fields = split(text, '\t');
    TORCH_CHECK_VALUE(fields.size() == 10 && fields[0] == "function", "expected a line of 10 fields, got '",
                      shown(text), "'");
    PackagedFunction function{.key = fields[1],
                              .op = fields[2],
                              .name = fields[3],
                              .dtype = fields[4],
                              .widths = fields[5],
                              .architecture = fields[6],
                              .limit = std::stoll(fields[7]),
                              .arguments = {},
                              .results = std::stoull(fields[9]),
                              .library = library,
                              .bytes = bytes,
                              .sha1 = hash,
                              .number = functions.size()};
    for (const std::string& argument : split(fields[8], ' ')) {
      function.arguments.push_back(argument_from(argument, function.dtype));
    }
    functions.push_back(std::move(function));
  }
  TORCH_CHECK_VALUE(!functions.empty(), "expected functions");
  return functions;
}

// The build makes folders `*_packages` inside of kernels/.
bool is_built(const fs::path& folder) { return folder.filename().string().ends_with("_packages"); }

// Returns the nearest folder kernels/ that has packages, beside the program or at most three folders above it: in an
// unpacked archive it is one above, in bazel-bin one to three. Farther up are folders of other users, such as /tmp.
std::vector<fs::path> folder_beside_program() {
  constexpr int kAbove = 3;
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int above = 0; above <= kAbove && folder.has_relative_path(); ++above, folder = folder.parent_path()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "kernels", error)) {
      if (is_built(entry.path())) return {folder / "kernels"};
    }
  }
  return {};
}

// Returns nothing if neither a folder nor a home is set. A relative path would begin at the working directory.
std::vector<fs::path> folder_of_user() {
  const auto environment = [](const char* variable) {
    const char* value = std::getenv(variable);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path folder = environment("STRATA_PACKAGES"); !folder.empty()) return {folder};
  if (const fs::path cache = environment("XDG_CACHE_HOME"); cache.is_absolute()) return {cache / "strata" / "packages"};
  if (const fs::path home = environment("HOME"); home.is_absolute()) return {home / ".cache" / "strata" / "packages"};
  return {};
}

}  // namespace

std::string_view package_dtype_name(c10::ScalarType dtype) {
  for (const auto& [dtype_name, known] : kDtypes) {
    if (known == dtype) return dtype_name;
  }
  return c10::toString(dtype);
}

std::string PackageRequest::key() const {
  std::ostringstream text;
  text << "torch " << TORCH_VERSION << "\nop " << op << "\nfunction " << function << "\ndtype "
       << package_dtype_name(dtype) << "\nwidths " << widths << "\narchitecture " << architecture << "\nformula "
       << sha1(std::string(formula)) << "\nprograms " << programs_of(op) << "\ncompiler " << kCompilerSources;
  return sha1(text.str());
}

std::string PackageRequest::description() const {
  std::string text = std::string(function) + " for " + std::string(package_dtype_name(dtype)) + ", ";
  if (widths != "-") text += "widths " + widths + ", ";
  return text + architecture;
}

PackageCatalog& PackageCatalog::instance() {
  static auto* catalog = [] {
    // The user's folder is first: a package that was made anew replaces a damaged one beside the program.
    std::vector<fs::path> folders = folder_of_user();
    for (fs::path& folder : folder_beside_program()) folders.push_back(std::move(folder));
    return new PackageCatalog(std::move(folders));  // never destroyed: static objects may still call its functions
  }();
  return *catalog;
}

// Reads the folders, and inside them the folders `*_packages` that the build makes.
const PackageCatalog::Contents& PackageCatalog::contents() {
  if (contents_) return *contents_;
  contents_.emplace();
  const auto read = [&](const fs::path& path) {
    try {
      for (PackagedFunction& function : read_text(path)) contents_->functions.push_back(std::move(function));
    } catch (const std::exception& problem) {
      const std::string sentence = problem.what();
      contents_->problems.push_back(path.string() + " cannot be read: " + sentence.substr(0, sentence.find('\n')));
    }
  };
  const auto read_folder = [&](const fs::path& folder) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".txt") read(entry.path());
    }
  };
  for (const fs::path& folder : folders_) {
    read_folder(folder);
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (is_built(entry.path())) read_folder(entry.path());
    }
  }
  return *contents_;
}

const PackagedFunction& PackageCatalog::find(const PackageRequest& request) {
  const std::lock_guard lock(mutex_);
  const Contents& contents = this->contents();
  const std::string key = request.key(), short_key = key.substr(0, 12);
  const std::string dtype(package_dtype_name(request.dtype));
  const PackagedFunction* stale = nullptr;
  std::string others;
  for (const PackagedFunction& known : contents.functions) {
    if (known.op != request.op || known.name != request.function) continue;
    const bool same =
        known.dtype == dtype && known.widths == request.widths && known.architecture == request.architecture;
    if (known.key == key && same) return known;
    if (same) stale = &known;
    if (others.size() < 300) {
      others += (others.empty() ? "" : "; ") + known.dtype + ", " + known.widths + ", " + known.architecture;
    }
  }
  TORCH_CHECK(
      stale == nullptr, request.op, "/aot_inductor: the package of ", request.description(), " in ",
      stale == nullptr ? "" : stale->library.string(),
      " is stale: it was made from other files of kernels/ or tools/aot_inductor/ or with another torch (its key is ",
      stale == nullptr ? "" : stale->key.substr(0, 12), ", expected ", short_key, "); ", kRemedy);
  std::string places, problems;
  for (const fs::path& folder : folders_) places += (places.empty() ? "" : " and ") + folder.string();
  for (const std::string& problem : contents.problems) problems += "; " + problem;
  TORCH_CHECK(false, request.op, "/aot_inductor: there is no package of ", request.description(), " (key ", short_key,
              ") in ", places.empty() ? "any folder" : places,
              others.empty() ? "" : "; of this function there are: ", others, problems, "; ", kRemedy);
}

const PackageLibrary& PackageCatalog::load(const PackagedFunction& function, const PackageRequest& request) {
  const std::lock_guard lock(mutex_);
  if (const auto known = libraries_.find(function.library); known != libraries_.end()) return known->second;
  const auto refuse = [&](const auto&... what) {
    TORCH_CHECK(false, request.op, "/aot_inductor: the package of ", request.description(), " in ",
                function.library.string(), " ", what..., "; ", kRemedy);
  };
  // Checks size and hash before dlopen, because a truncated file would kill the process when it is mapped into memory.
  // The file is read and loaded through one file descriptor, so that nobody can replace it between check and load.
  void* handle = nullptr;
  try {
    TrustedFile file(function.library);
    if (file.bytes() != function.bytes) refuse("has ", file.bytes(), " bytes, expected ", function.bytes);
    if (sha1(file.read()) != function.sha1) refuse("is damaged: its SHA-1 is not that of its text");
    handle = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its kernels may be running
    // dlopen returns the library that it has loaded from the same path, so no other file may get this descriptor.
    file.keep_open();
  } catch (const c10::ValueError& problem) {
    refuse("cannot be loaded: ", problem.what_without_backtrace());
  }
  if (handle == nullptr) refuse("cannot be loaded: ", dlerror());
  const PackageLibrary library{reinterpret_cast<PackageCreate*>(dlsym(handle, kPackageCreate)),
                               reinterpret_cast<PackageRun*>(dlsym(handle, kPackageRun))};
  if (library.create == nullptr || library.run == nullptr) refuse("is not a package: it has no ", kPackageRun);
  return libraries_.emplace(function.library, library).first->second;
}

}  // namespace strata::kernels
