// SPDX-License-Identifier: MIT
#include "kernels/load_candidates.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <elf.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "kernels/candidate_list.h"
#include "kernels/declarations.h"
#include "kernels/op_list.h"
#include "kernels/runtime/trusted_file.h"

namespace strata::kernels {
namespace {

constexpr const char* kRemedy = "; compile it again with the options that tools/strata bench flags prints";

// Returns why the file is no whole shared library, or "". A truncated one would kill the process when it is mapped into
// memory. Linkers write the table of sections at the end.
std::string why_not_loaded(const std::string& content) {
  Elf64_Ehdr header;
  if (content.size() < sizeof header) return "is no shared library";
  std::memcpy(&header, content.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN) {
    return "is no shared library";
  }
  const size_t sections = size_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff > content.size() || sections > content.size() - header.e_shoff) return "is truncated";
  return "";
}

// Fills kLibraryLevel of the op that the candidate names. Returns false if there is no such op.
bool fill(const CandidateKernel& candidate, std::vector<std::string_view>& ops) {
  const size_t before = ops.size();
  for_each_table([&]<class Op>(const KernelTable<Op>&, std::string_view) {
    if (candidate.op != Op::kName) return;
    Kernel<Op> kernel = {reinterpret_cast<typename Op::Forward*>(candidate.forward), nullptr};
    if constexpr (std::is_function_v<typename Op::Backward>) {
      kernel.backward = reinterpret_cast<typename Op::Backward*>(candidate.backward);
    }
    library_kernel<Op> = kernel;
    ops.push_back(Op::kName);
  });
  return ops.size() > before;
}

// Throws a ValueError that begins with the path.
template <class... Parts>
void require(bool condition, const std::filesystem::path& path, const Parts&... parts) {
  TORCH_CHECK_VALUE(condition, path.string(), parts...);
}

// The file is checked and loaded through one file descriptor, so that nobody can replace it between the two.
void* load(const std::filesystem::path& path) {
  std::optional<TrustedFile> file;
  try {
    file.emplace(path);
  } catch (const c10::ValueError& error) {
    require(false, path, ": ", error.what_without_backtrace());
  }
  const std::string problem = why_not_loaded(file->read());
  require(problem.empty(), path, " ", problem, ", expected one that g++ -shared made");
  void* const library = dlopen(file->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) require(false, path, " cannot be loaded: ", dlerror(), kRemedy);
  // dlopen returns the library that it has loaded from the same path, so no other file may get this descriptor.
  file->keep_open();
  return library;
}

}  // namespace

std::vector<std::string_view> load_candidates(const std::filesystem::path& path) {
  const auto refuse_unless = [&](bool condition, const auto&... what) { require(condition, path, what...); };
  const auto candidates = reinterpret_cast<Candidates*>(dlsym(load(path), kCandidates));
  refuse_unless(candidates != nullptr, " has no function ", kCandidates,
                "; expected STRATA_CANDIDATES of kernels/candidate.h in it");
  const CandidateList& list = *candidates();
  refuse_unless(list.format == kCandidateFormat, " has candidates of format ", list.format, ", expected ",
                kCandidateFormat, kRemedy);
  refuse_unless(std::strcmp(list.torch, TORCH_VERSION) == 0, " was compiled with LibTorch ", list.torch,
                ", and this program with ", TORCH_VERSION, kRemedy);
  refuse_unless(std::strcmp(list.declarations, kDeclarations) == 0, " was compiled with declarations of ops of hash ",
                list.declarations, ", and this program with ", kDeclarations, kRemedy);
  std::vector<std::string_view> ops;
  for (size_t i = 0; i < list.count; ++i) {
    const CandidateKernel& candidate = list.candidates[i];
    refuse_unless(candidate.op != nullptr, " has a kernel without the name of an op");
    refuse_unless(std::ranges::count(ops, candidate.op) == 0, " has two kernels of op ", candidate.op);
    refuse_unless(candidate.forward != nullptr, " has no forward of op ", candidate.op);
    refuse_unless(fill(candidate, ops), " has a kernel of op ", candidate.op, ", and there is no such op");
  }
  refuse_unless(!ops.empty(), " has no kernel");
  return ops;
}

}  // namespace strata::kernels
