// SPDX-License-Identifier: MIT
#include "kernels/quantize/weight_codes.h"

#include <c10/core/TensorImpl.h>

#include <mutex>
#include <unordered_map>
#include <utility>

namespace strata::kernels {
namespace {

// By the weight's own TensorImpl. Threads of the autograd engine read it.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, WeightCodes> codes;
};

Registry& registry() {
  static auto& all = *new Registry;  // never destroyed: CUDA may have ended before
  return all;
}

}  // namespace

void set_weight_codes(const Tensor& weight, WeightCodes codes) {
  const std::lock_guard lock(registry().mutex);
  registry().codes[weight.unsafeGetTensorImpl()] = std::move(codes);
}

void clear_weight_codes(const Tensor& weight) {
  const std::lock_guard lock(registry().mutex);
  registry().codes.erase(weight.unsafeGetTensorImpl());
}

WeightCodes weight_codes(const Tensor& weight) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().codes.find(weight.unsafeGetTensorImpl());
  return found == registry().codes.end() ? WeightCodes{} : found->second;
}

}  // namespace strata::kernels
