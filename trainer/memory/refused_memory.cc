// SPDX-License-Identifier: MIT
#include "trainer/memory/refused_memory.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace strata::trainer {
namespace {

// Returns the text from `sign` to the end of its line.
std::optional<std::string> line_from(std::string_view sign, const std::string& text) {
  const size_t place = text.find(sign);
  if (place == std::string::npos) return std::nullopt;
  return text.substr(place, text.find('\n', place) - place);
}

}  // namespace

std::optional<std::string> refused_by_gpu(const std::exception& error) {
  if (const auto* typed = dynamic_cast<const c10::OutOfMemoryError*>(&error)) return typed->what_without_backtrace();
  return line_from("CUDA out of memory", error.what());
}

std::optional<std::string> refused_by_host(const std::exception& error) {
  return line_from("you tried to allocate", error.what());
}

}  // namespace strata::trainer
