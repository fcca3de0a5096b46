// SPDX-License-Identifier: MIT
// load_candidates: loads a shared library with kernels of somebody's own, and fills kLibraryLevel of its ops.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace strata::kernels {

// Returns the ops of which the library has a kernel. Its code runs with all rights of this process, already while it is
// loaded. So only the user, root or the owner of this program may be able to write the file. It stays loaded.
//
// Throws a c10::ValueError that begins with the path if the file is not trusted, is no shared library, lacks the
// function strata_candidates, or was compiled with another LibTorch or other headers of ops than this program.
std::vector<std::string_view> load_candidates(const std::filesystem::path& path);

}  // namespace strata::kernels
