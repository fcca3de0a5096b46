// SPDX-License-Identifier: MIT
// The tokenizer of a run's data, kept in the run's folder, because samples need it and the data may be deleted.
#pragma once

#include <functional>
#include <string>

#include "trainer/report/run_folder.h"

namespace strata::trainer {

// Copies tokenizer.json into the run's folder. `prepare text` writes it beside the token files, which `token_files`
// names, maybe by a pattern. Beside tokens of bytes it is of other data, and is left there; `tokens_are_bytes` is asked
// only if there is one. It may come with data of others and leaves with an export, so no link is followed, and contents
// other than a JSON object throw Error(data). A tokenizer that is there stays, unless `replace` says that it may be of
// other data: then it gets another name, because somebody may have put it there.
void keep_tokenizer(const std::string& token_files, const RunFolder& folder, bool replace,
                    const std::function<bool()>& tokens_are_bytes);

}  // namespace strata::trainer
