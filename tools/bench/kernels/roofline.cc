// SPDX-License-Identifier: MIT
#include "tools/bench/kernels/roofline.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>

#include <algorithm>

#include "tools/bench/kernels/timer.h"

namespace strata::tools {

double Roofline::least_seconds(const kernels::Work& work) const {
  return std::max(work.bytes / bytes_per_second, work.flops / flops_per_second);
}

Roofline measure_roofline(at::Device device, at::ScalarType dtype) {
  Roofline roofline{};
  {
    const int64_t bytes = int64_t{1} << (device.is_cuda() ? 30 : 27);
    const at::Tensor from = at::empty({bytes}, at::TensorOptions(at::kByte).device(device)).fill_(1);
    const at::Tensor to = at::empty_like(from);
    const double seconds = median_seconds(device, [&](int64_t) { to.copy_(from); });
    roofline.bytes_per_second = 2.0 * static_cast<double>(bytes) / seconds;
  }
  const int64_t side = device.is_cuda() ? 8192 : 1024;
  const at::Tensor a = at::randn({side, side}, at::TensorOptions(dtype).device(device)), b = at::randn_like(a);
  at::Tensor c = at::empty_like(a);
  const double seconds = median_seconds(device, [&](int64_t) { at::mm_out(c, a, b); });
  roofline.flops_per_second = 2.0 * static_cast<double>(side * side * side) / seconds;
  return roofline;
}

}  // namespace strata::tools
