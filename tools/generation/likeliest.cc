// SPDX-License-Identifier: MIT
#include "tools/generation/likeliest.h"

#include <ATen/ops/empty.h>

#include <limits>

#include "kernels/cuda/is_on_hopper.h"
#include "kernels/cuda/launch.h"
#include "tools/generation/likeliest_cuda.h"
#include "tools/generation/sample.h"

namespace strata::generation {

bool has_likeliest_kernel(const at::Tensor& logits) {
  constexpr int64_t kMostRows = 65535;  // blocks along y
  return kernels::is_on_hopper(logits) && logits.scalar_type() != at::kDouble && logits.size(0) <= kMostRows &&
         logits.size(1) > 0 && logits.size(1) <= std::numeric_limits<unsigned>::max();
}

at::Tensor likeliest_by_kernel(const at::Tensor& logits) {
  const at::Tensor rows = logits.contiguous();
  const at::Tensor ids = at::empty({rows.size(0)}, rows.options().dtype(at::kLong));
  const LikeliestTokens arguments = {.type = kernels::cuda_type("sample", "logits", rows),
                                     .logits = rows.const_data_ptr(),
                                     .ids = ids.mutable_data_ptr<int64_t>(),
                                     .rows = rows.size(0),
                                     .width = rows.size(1),
                                     .no_token = kNoToken};
  kernels::launch("likeliest_cuda", rows, arguments.rows, arguments.width,
                  [&](cudaStream_t stream) { return launch_likeliest(arguments, stream); });
  return ids;
}

}  // namespace strata::generation
