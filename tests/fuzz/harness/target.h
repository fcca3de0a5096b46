// SPDX-License-Identifier: MIT
// A fuzz target: one reader of files that are not trusted, and what must hold for every input. Each *_fuzz.cc defines
// one. Two programs run it: replay.cc, an ordinary test, and libfuzzer.cc, which searches with coverage.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"

namespace strata::fuzz {

// A word for JSON: lists in lists.
inline constexpr std::string_view kDeep = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";

struct Target {
  ExitCode refusal;       // code of the Error that refuses an input
  std::string_view file;  // every message must name it; empty if messages name something else
  // Gives the bytes to the reader. Lets its exceptions through and checks by require() what it has accepted.
  void (*parse)(std::string_view bytes);
  // Mends checksums and lengths after a mutation, so that inputs reach the code after these checks.
  std::string (*mend)(std::string bytes) = nullptr;
  // True if the reader itself replaces control characters of the input. False if only the programs do, when they show
  // a message (base/text/printable.h).
  bool plain_messages = true;
  // No allocation for an input of 64 KiB takes more. Readers of compressed files may unpack up to 64 MiB of it, which a
  // vector that grows can hold twice.
  size_t mebibytes = 128;
  // Code of the Error for an input that names a file which cannot be opened; none: no input names files.
  std::optional<ExitCode> unopened = std::nullopt;
  // Words of the format, which mutations insert.
  std::vector<std::string_view> words = {};
};

// The target of this program.
extern const Target kTarget;

// A target throws this if the reader has accepted something that it must refuse, or has changed it.
struct Broken {
  std::string reason;
};

inline void require(bool holds, const std::string& reason) {
  if (!holds) throw Broken{reason};
}

}  // namespace strata::fuzz
