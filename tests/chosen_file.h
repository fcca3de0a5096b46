// SPDX-License-Identifier: MIT
// Which cases run of an executable that has those of several files. Such files share one copy of what they link, and
// each has a link to the executable.
#pragma once

#include <string_view>

namespace strata::tests {

// Leaves only the cases of the file that the last part of `path` names: a_test or a_test_ranks are those of a_test.cc,
// and b_gpu_test those of b_gpu_test.cc or b.cc. Of these, a filter of the caller chooses. It is called after
// InitGoogleTest. Returns false, and says it on stderr, if there is no such file.
bool choose_file(std::string_view path);

}  // namespace strata::tests
