// SPDX-License-Identifier: MIT
// `data: {type: text}`: the token files of a run, and what its tokens see of each other.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace strata::trainer {

// joined: a sample is a window of one long text. separate: attention, positions and predictions stay in a document.
enum class DocumentUse { joined, separate };
constexpr std::array<std::string_view, 2> names(DocumentUse) { return {"joined", "separate"}; }

struct TextDataConfig {
  std::string train = {}, validation = {};
  DocumentUse documents = DocumentUse::joined;

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("train", train, "token files to train on; a pattern such as data/train_*.bin means several files");
    fields.require("validation", validation, "token files for evaluations; a pattern means several files");
    fields.add(
        "documents", documents,
        "what tokens of a sample see; joined: all tokens before them; separate: those of their own document, whose "
        "positions start at 0; the first token of a document is then not predicted");
  }
};

}  // namespace strata::trainer
