// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/weights_differences.h"

#include <map>
#include <set>

#include "base/text/nearest_name.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {

std::string weights_differences(const Shapes& stored, const Shapes& parameters) {
  constexpr int kMostLines = 20;
  int count = 0;
  std::string text;
  const auto add = [&](const std::string& line) {
    if (++count <= kMostLines) text += "\n  " + line;
  };
  std::vector<std::string> names;
  for (const auto& [name, shape] : stored) names.push_back(name);
  const std::map<std::string, std::vector<int64_t>> shapes(stored.begin(), stored.end());
  std::set<std::string> known;
  for (const auto& [name, shape] : parameters) {
    known.insert(name);
    const auto found = shapes.find(name);
    if (found == shapes.end()) {
      // A name is compared with all others, which may be 100,000, so it is not done for lines that nobody sees.
      add(name + ": missing" + (count < kMostLines ? did_you_mean(nearest_name(name, names)) : ""));
    } else if (found->second != shape) {
      add(name + ": " + shape_text(found->second) + " there, the model has " + shape_text(shape));
    }
  }
  for (const std::string& name : names) {
    if (!known.contains(name)) add(printable(name) + ": the model has no such parameter");
  }
  if (count > kMostLines) text += "\n  and " + std::to_string(count - kMostLines) + " more";
  return text;
}

}  // namespace strata::trainer
