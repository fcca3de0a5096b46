// SPDX-License-Identifier: MIT
// Joins the texts of several items to one text: "a, b, c".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace strata {

// `text_of` returns the text of an item. Without it, the items are texts. Without items, the result is empty.
template <class Items, class TextOf = std::identity>
std::string joined(Items&& items, std::string_view separator, TextOf text_of = {}) {
  std::string text;
  bool is_first = true;
  for (auto&& item : items) {
    if (!std::exchange(is_first, false)) text += separator;
    text += text_of(item);
  }
  return text;
}

}  // namespace strata
