// SPDX-License-Identifier: MIT
// Fuzzes a folder of weights in two files with an index. Two lines `====` separate the index and the files in an input.
#include <array>

#include "tests/fuzz/harness/input_files.h"
#include "trainer/checkpoint/weights_folder.h"

namespace strata::fuzz {
namespace {

constexpr std::string_view kSeparator = "\n====\n";
constexpr std::array<const char*, 3> kFiles = {trainer::kWeightsIndex, "a.safetensors", "b.safetensors"};

void parse(std::string_view bytes) {
  for (const char* name : kFiles) {
    const size_t end = std::min(bytes.find(kSeparator), bytes.size());
    write_input(name, bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + kSeparator.size(), bytes.size()));
  }
  const trainer::WeightsFolder folder(input_folder());
  for (const std::string& name : folder.names()) require(folder.find(name) != nullptr, "a tensor is not found");
}

}  // namespace

// Messages name the folder, or one of the three files in it. They show where the JSON of an index goes wrong as it is.
const Target kTarget = {.refusal = ExitCode::storage,
                        .file = "strata-bench-",
                        .parse = parse,
                        .plain_messages = false,
                        .words = {"\"weight_map\"", "\"../b.safetensors\"", "\"b.safetensors\"", kDeep}};

}  // namespace strata::fuzz
