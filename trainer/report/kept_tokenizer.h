// SPDX-License-Identifier: MIT
// The tokenizer of a run's data, kept in the run's folder, because samples need it and the data may be deleted.
#pragma once

#include <functional>
#include <string>

#include "trainer/report/run_folder.h"

namespace strata::trainer {

// Copies tokenizer.json into the run's folder. `prepare text` writes it beside the token files, which `token_files`
// names, maybe by a pattern. Beside tokens of bytes it belongs to other data, and is left there; `tokens_are_bytes` is
// called only if there is one. The file may come from others and is a part of exports, so no link is followed, and
// contents other than a JSON object throw Error (data). A tokenizer that is already in the folder stays. With `replace`
// it may belong to other data, so it gets another name instead of being deleted: a user may have put it there.
void keep_tokenizer(const std::string& token_files, const RunFolder& folder, bool replace,
                    const std::function<bool()>& tokens_are_bytes);

}  // namespace strata::trainer
