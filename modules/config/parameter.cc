// SPDX-License-Identifier: MIT
#include "modules/config/parameter.h"

namespace strata::modules {

int64_t Parameter::elements() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

}  // namespace strata::modules
