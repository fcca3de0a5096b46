// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/one_document.h"

#include <algorithm>

namespace strata::kernels {

Pattern for_one_document(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::documents) return {};
  Pattern result = pattern;
  for (Pattern& part : result.parts) part = for_one_document(part);
  return result;
}

bool keeps_documents_apart(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::documents) return true;
  return pattern.kind == Pattern::Kind::both &&
         std::any_of(pattern.parts.begin(), pattern.parts.end(), keeps_documents_apart);
}

}  // namespace strata::kernels
