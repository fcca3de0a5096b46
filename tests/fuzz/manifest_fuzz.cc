// SPDX-License-Identifier: MIT
// Fuzzes manifests of checkpoints without their last line, whose hash is computed here: without it, nothing but the
// hash would be tried. An accepted manifest is the same after it is written and read again.
#include "base/digest.h"
#include "tests/fuzz/harness/read_again.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "manifest.json";

void parse(std::string_view bytes) {
  const std::string body(bytes);
  const trainer::Manifest manifest =
      trainer::parse_manifest(body + ",\n\"sha256\": \"" + sha256(body) + "\"\n}\n", kFile);
  const std::string written = to_text(manifest);
  require(read_again([&] { return to_text(trainer::parse_manifest(written, kFile)); }) == written,
          "a manifest is read again as another");
  for (const auto& [name, tensor] : manifest.tensors) {
    int64_t covered = 0;
    for (const trainer::StoredPiece& piece : tensor.pieces) {
      require(piece.offset == covered, "the pieces of a tensor overlap or leave a hole");
      covered += piece.count;
    }
    require(covered == trainer::element_count(tensor.shape), "the pieces do not cover the tensor");
  }
}

}  // namespace

const Target kTarget = {
    .refusal = ExitCode::storage,
    .file = kFile,
    .parse = parse,
    .words = {"\"step\": 20", "\"F32\"", "[[0,0,4]]", "[[1,-1,4]]", "\"../x\"", "\"files\"", "\\ud800", kDeep}};

}  // namespace strata::fuzz
