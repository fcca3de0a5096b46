// SPDX-License-Identifier: MIT
// Fuzzes ZIP archives: entries are read in full or refused.
#include "tests/fuzz/harness/input_files.h"
#include "tests/fuzz/harness/zip_checksums.h"
#include "trainer/data/graphs/zip_file.h"

namespace strata::fuzz {
namespace {

constexpr char kFile[] = "input.npz";

void parse(std::string_view bytes) {
  trainer::ZipFile archive(write_input(kFile, bytes));
  for (const char* name : {"a", "b", "c.npy"}) {
    const trainer::ZipEntry* entry = archive.find(name);
    if (entry == nullptr) continue;
    require(static_cast<int64_t>(archive.read(*entry).size()) == entry->bytes, "an entry has another size");
  }
}

}  // namespace

const Target kTarget = {.refusal = ExitCode::data, .file = kFile, .parse = parse, .mend = with_zip_checksums};

}  // namespace strata::fuzz
