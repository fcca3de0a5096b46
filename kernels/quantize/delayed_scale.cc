// SPDX-License-Identifier: MIT
#include "kernels/quantize/delayed_scale.h"

#include <c10/util/Exception.h>

namespace strata::kernels {

void check_delayed(std::string_view function, const at::Tensor& x, Scaling scaling, const DelayedScale& delayed) {
  if (!delayed.past.defined() && !delayed.present.defined()) return;
  TORCH_CHECK_VALUE(scaling == Scaling::tensor, function, ": a delayed scale for scaling ", name(scaling),
                    ", expected tensor");
  for (const at::Tensor& amax : {delayed.past, delayed.present.defined() ? delayed.present : delayed.past}) {
    TORCH_CHECK_VALUE(amax.defined() && amax.scalar_type() == at::kFloat && amax.dim() == 1 && amax.numel() == 1 &&
                          amax.device() == x.device(),
                      function, ": an amax of a delayed scale is ", amax.toString(), ", expected Float [1] on ",
                      x.device());
  }
}

}  // namespace strata::kernels
