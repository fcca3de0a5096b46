// SPDX-License-Identifier: MIT
// gelu, gelu_tanh, relu and silu, forward and backward.
#include "kernels/activation/activation_cuda.h"
#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/elementwise.cuh"

namespace strata::kernels {
namespace {

template <Activation kKind, class T>
struct Forward {
  __device__ float operator()(float x) const { return activate<kKind, T>(x); }
};

template <Activation kKind, class T>
struct Backward {
  __device__ float operator()(float grad_y, float x) const { return grad_y * activate_derivative<kKind, T>(x); }
};

// Calls visit.operator()<kKind>().
template <class Visit>
cudaError_t visit_kind(Activation kind, Visit visit) {
  switch (kind) {
    case Activation::gelu:
      return visit.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return visit.template operator()<Activation::gelu_tanh>();
    case Activation::relu:
      return visit.template operator()<Activation::relu>();
    case Activation::silu:
      return visit.template operator()<Activation::silu>();
    case Activation::none:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_activation_forward(CudaType type, Activation kind, void* y, const void* x, int64_t count,
                                      cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    return visit_kind(
        kind, [&]<Activation kKind>() { return launch_elementwise<T>(y, count, stream, Forward<kKind, T>{}, x); });
  });
}

cudaError_t launch_activation_backward(CudaType type, Activation kind, void* grad_x, const void* grad_y, const void* x,
                                       int64_t count, cudaStream_t stream) {
  return visit_type(type, [&]<class T>(T) {
    return visit_kind(kind, [&]<Activation kKind>() {
      return launch_elementwise<T>(grad_x, count, stream, Backward<kKind, T>{}, grad_y, x);
    });
  });
}

}  // namespace strata::kernels
