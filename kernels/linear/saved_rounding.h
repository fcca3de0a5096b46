// SPDX-License-Identifier: MIT
// SavedRounding: how operands are rounded, from the forward of a torch::autograd::Function to its backward.
#pragma once

#include <torch/custom_class.h>

#include <utility>

#include "kernels/quantize/delayed_scale.h"
#include "kernels/quantize/number_format.h"

namespace strata::kernels {

// It is kept in saved_data. Tensors that steps change in place are none for save_for_backward().
struct SavedRounding : public torch::CustomClassHolder {
  SavedRounding(const ProductFormats& formats, DelayedScales scales) : formats(formats), scales(std::move(scales)) {}

  static c10::IValue of(const ProductFormats& formats, const DelayedScales& scales) {
    return c10::IValue::make_capsule(c10::make_intrusive<SavedRounding>(formats, scales));
  }
  static const SavedRounding& in(const c10::IValue& saved) {
    return *c10::static_intrusive_pointer_cast<SavedRounding>(saved.toCapsule());
  }

  const ProductFormats formats;
  const DelayedScales scales;
};

}  // namespace strata::kernels
