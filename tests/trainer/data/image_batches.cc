// SPDX-License-Identifier: MIT
// image_batches KIND PATH CLASSES CHANNELS SIZE THREADS SEED FIRST COUNT FOLDER: writes images as a model gets them, as
// safetensors. KIND is folder, or, for archives of a pattern, the number of shuffled samples. SEED -1 means an
// evaluation. Prints the images that could not be read. With the word --runs alone it does that again and again
// (forked_runs.h).
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/end_process.h"
#include "base/errors.h"
#include "tests/trainer/data/forked_runs.h"
#include "tools/weights/weights_writer.h"
#include "trainer/data/images/encoded_images.h"
#include "trainer/data/images/image_folder.h"
#include "trainer/data/images/web_dataset.h"

namespace strata::trainer {
namespace {

std::unique_ptr<ImageFiles> open(const std::string& kind, const std::string& path, int64_t classes) {
  if (kind == "folder") return std::make_unique<ImageFolder>(path, classes);
  return std::make_unique<WebDataset>(path, classes, std::stoll(kind));
}

int run(std::vector<std::string> arguments) {
  if (arguments.size() != 11) return 2;
  const auto number = [&](size_t place) { return std::atoll(arguments[place].c_str()); };
  try {
    const EncodedImages images(open(arguments[1], arguments[2], number(3)),
                               {.channels = number(4), .size = number(5), .flip = true, .threads = number(6)});
    const int64_t first = number(8), wanted = number(9) > 0 ? number(9) : images.count();
    const auto [pixels, labels] = number(7) < 0
                                      ? images.evaluation_batch(first, wanted)
                                      : images.training_batch(static_cast<uint64_t>(number(7)), first, wanted);
    const at::Tensor as_numbers = pixels.to(at::kFloat).contiguous(), classes = labels.to(at::kFloat);
    tools::write_weights(arguments[10],
                         {{"images", as_numbers.sizes().vec(), [as_numbers] { return as_numbers; }},
                          {"labels", classes.sizes().vec(), [classes] { return classes; }}},
                         tools::kDefaultFileBytes);
    for (const std::string& line : images.take_bad_images()) std::printf("%s\n", line.c_str());
    std::printf("fingerprint %s\n", images.fingerprint().c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace strata::trainer

int main(int count, char** arguments) {
  strata::end_process(strata::tests::one_or_forked_runs({arguments, arguments + count}, strata::trainer::run));
}
