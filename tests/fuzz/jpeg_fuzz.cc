// SPDX-License-Identifier: MIT
// Fuzzes JPEG files.
#include "tests/fuzz/harness/picture.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "picture.jpg";

}  // namespace

const Target kTarget = {.refusal = ExitCode::data,
                        .file = kFile,
                        .parse = [](std::string_view bytes) { parse_picture(bytes, kFile); },
                        .mebibytes = kPictureMebibytes};

}  // namespace strata::fuzz
