// SPDX-License-Identifier: MIT
#include "configs/fields.h"

namespace strata::configs {

std::string Field::expected() const {
  if (section) return "a section (keys and values)";
  if (append) return "a list of sections";
  std::string list;
  if (element) {
    list = list_length == 0 ? "a list" : "a list of " + std::to_string(list_length);
    list += ", each " + element->expected();
  }
  if (!value) return list;
  return element ? value->expected() + ", or " + list : value->expected();
}

bool Section::needs_keys() const {
  if (choice) return true;
  for (const Field& field : fields) {
    if (field.required) return true;
  }
  return false;
}

}  // namespace strata::configs
