// SPDX-License-Identifier: MIT
// swiglu, forward and backward. A block computes a part of a row's columns; its blockIdx.y is the first of its rows.
#include <algorithm>

#include "kernels/activation/activation_math.cuh"
#include "kernels/cuda/amax.cuh"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/swiglu/swiglu_cuda.h"

namespace strata::kernels {
namespace {

// Vectors of each tensor that a thread of the forward loads at once: 4.35 instead of 4.16 TB/s.
constexpr int kVectors = 2;
constexpr int kMaxThreads = 256;

struct GateUp {
  float gate, up;
};

template <Activation kKind, class T>
__device__ float forward_of(float gate, float up) {
  return activate<kKind, T>(gate) * up;
}

// silu'(g) = s + g s (1 - s) with s = sigmoid(g). Both gradients need s. gelu_tanh writes its sigmoid twice, and the
// compiler merges the two.
template <Activation kKind, class T>
__device__ GateUp backward_of(float grad_y, float gate, float up) {
  if constexpr (kKind == Activation::silu) {
    const float share = sigmoid<T>(gate);
    return {grad_y * up * fmaf(share * (1.0f - share), gate, share), grad_y * gate * share};
  } else {
    return {grad_y * up * activate_derivative<kKind, T>(gate), grad_y * activate<kKind, T>(gate)};
  }
}

// Kernels with kAmax also find the largest magnitude of what they store. Their blocks then have several rows each.
template <Activation kKind, class T, bool kAmax>
__global__ void __launch_bounds__(kMaxThreads)
    forward_kernel(uint4* y, const uint4* gate_up, int64_t rows, int vectors_in_row, unsigned* partials) {
  Amax<T> amax;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const uint4* gates = gate_up + 2 * row * vectors_in_row;
    Packed<T> gate[kVectors], up[kVectors];
    const int first = blockIdx.x * blockDim.x * kVectors + threadIdx.x;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = first + v * blockDim.x;
      if (i >= vectors_in_row) continue;
      gate[v].words = __ldcs(gates + i);
      up[v].words = __ldcs(gates + vectors_in_row + i);
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = first + v * blockDim.x;
      if (i >= vectors_in_row) continue;
      gate[v].fill([&](int k) { return forward_of<kKind, T>(gate[v].at(k), up[v].at(k)); });
      if constexpr (kAmax) amax.see(gate[v]);
      __stcs(y + row * vectors_in_row + i, gate[v].words);
    }
  }
  if constexpr (kAmax) amax.store(partials);
}

// grad_gate_up may be gate_up: a thread loads the elements that it overwrites before.
template <Activation kKind, class T, bool kAmax>
__global__ void __launch_bounds__(kMaxThreads)
    backward_kernel(uint4* grad_gate_up, const uint4* grad_y, const uint4* gate_up, int64_t rows, int vectors_in_row,
                    unsigned* partials) {
  constexpr int N = kVectorWidth<T>;
  Amax<T> amax;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const uint4* gates = gate_up + 2 * row * vectors_in_row;
    uint4* results = grad_gate_up + 2 * row * vectors_in_row;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors_in_row) break;
    Packed<T> gate{__ldcs(gates + i)}, up{__ldcs(gates + vectors_in_row + i)};
    const Packed<T> grad{__ldcs(grad_y + row * vectors_in_row + i)};
    GateUp result[N];
#pragma unroll
    for (int k = 0; k < N; ++k) result[k] = backward_of<kKind, T>(grad.at(k), gate.at(k), up.at(k));
    gate.fill([&](int k) { return result[k].gate; });
    up.fill([&](int k) { return result[k].up; });
    if constexpr (kAmax) {
      amax.see(gate);
      amax.see(up);
    }
    __stcs(results + i, gate.words);
    __stcs(results + vectors_in_row + i, up.words);
  }
  if constexpr (kAmax) amax.store(partials);
}

// These kernels support any width and alignment.
template <Activation kKind, class T, bool kAmax>
__global__ void forward_any_kernel(T* y, const T* gate_up, int64_t rows, int64_t width, unsigned* partials) {
  Amax<T> amax;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < width; i += gridDim.x * blockDim.x) {
      const T* gate = gate_up + 2 * row * width + i;
      const T value = from_float<T>(forward_of<kKind, T>(to_float(gate[0]), to_float(gate[width])));
      if constexpr (kAmax) amax.see(value);
      y[row * width + i] = value;
    }
  }
  if constexpr (kAmax) amax.store(partials);
}

template <Activation kKind, class T, bool kAmax>
__global__ void backward_any_kernel(T* grad_gate_up, const T* grad_y, const T* gate_up, int64_t rows, int64_t width,
                                    unsigned* partials) {
  Amax<T> amax;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < width; i += gridDim.x * blockDim.x) {
      const T* gate = gate_up + 2 * row * width + i;
      T* result = grad_gate_up + 2 * row * width + i;
      const auto [grad_gate, grad_up] =
          backward_of<kKind, T>(to_float(grad_y[row * width + i]), to_float(gate[0]), to_float(gate[width]));
      result[0] = from_float<T>(grad_gate);
      result[width] = from_float<T>(grad_up);
      if constexpr (kAmax) {
        amax.see(result[0]);
        amax.see(result[width]);
      }
    }
  }
  if constexpr (kAmax) amax.store(partials);
}

struct Grid {
  dim3 blocks;
  int threads;
};

// Returns the fewest blocks per row that cover the row, with threads in whole warps of which few are idle.
template <bool kAmax>
Grid grid_for(int64_t rows, int64_t items, int items_per_thread) {
  int64_t pieces = ceil_divide<int64_t>(items, kMaxThreads * items_per_thread);
  const int64_t threads = ceil_divide<int64_t>(items, pieces * items_per_thread * kWarp) * kWarp;
  int64_t most_along_y = 65535;
  if constexpr (kAmax) {
    pieces = std::min<int64_t>(pieces, kAmaxPartials);
    most_along_y = kAmaxPartials / pieces;
  }
  return {dim3(static_cast<unsigned>(pieces), static_cast<unsigned>(std::min(rows, most_along_y))),
          static_cast<int>(threads)};
}

// The kernels of vectors have a block for each piece of a row, and with kAmax at most kAmaxPartials blocks.
template <bool kAmax>
bool in_vectors(int64_t width, int per_vector, bool aligned) {
  constexpr int64_t kMost = kAmax ? int64_t{kAmaxPartials} * kMaxThreads : int64_t{1} << 30;
  return aligned && width % per_vector == 0 && width / per_vector < kMost;
}

// Calls visit.operator()<kKind, T, kAmax>().
template <class Visit>
cudaError_t visit_kernels(Activation kind, CudaType type, bool amax, Visit visit) {
  return visit_type(type, [&]<class T>(T) {
    const auto launch_kind = [&]<Activation kKind>() {
      return amax ? visit.template operator()<kKind, T, true>() : visit.template operator()<kKind, T, false>();
    };
    switch (kind) {
      case Activation::silu:
        return launch_kind.template operator()<Activation::silu>();
      case Activation::gelu_tanh:
        return launch_kind.template operator()<Activation::gelu_tanh>();
      case Activation::none:
      case Activation::gelu:
      case Activation::relu:
        break;
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace

cudaError_t launch_swiglu_forward(CudaType type, Activation kind, void* y, const void* gate_up, int64_t rows,
                                  int64_t width, unsigned* amax, cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return visit_kernels(kind, type, amax != nullptr, [&]<Activation kKind, class T, bool kAmax>() {
    if (in_vectors<kAmax>(width, kVectorWidth<T>, are_aligned(y, gate_up))) {
      const int vectors = static_cast<int>(width / kVectorWidth<T>);
      const auto [blocks, threads] = grid_for<kAmax>(rows, vectors, kVectors);
      forward_kernel<kKind, T, kAmax><<<blocks, threads, 0, stream>>>(
          static_cast<uint4*>(y), static_cast<const uint4*>(gate_up), rows, vectors, amax);
    } else {
      const auto [blocks, threads] = grid_for<kAmax>(rows, width, 1);
      forward_any_kernel<kKind, T, kAmax>
          <<<blocks, threads, 0, stream>>>(static_cast<T*>(y), static_cast<const T*>(gate_up), rows, width, amax);
    }
    return cudaGetLastError();
  });
}

cudaError_t launch_swiglu_backward(CudaType type, Activation kind, void* grad_gate_up, const void* grad_y,
                                   const void* gate_up, int64_t rows, int64_t width, unsigned* amax,
                                   cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return visit_kernels(kind, type, amax != nullptr, [&]<Activation kKind, class T, bool kAmax>() {
    if (in_vectors<kAmax>(width, kVectorWidth<T>, are_aligned(grad_gate_up, grad_y, gate_up))) {
      const int vectors = static_cast<int>(width / kVectorWidth<T>);
      const auto [blocks, threads] = grid_for<kAmax>(rows, vectors, 1);
      backward_kernel<kKind, T, kAmax>
          <<<blocks, threads, 0, stream>>>(static_cast<uint4*>(grad_gate_up), static_cast<const uint4*>(grad_y),
                                           static_cast<const uint4*>(gate_up), rows, vectors, amax);
    } else {
      const auto [blocks, threads] = grid_for<kAmax>(rows, width, 1);
      backward_any_kernel<kKind, T, kAmax>
          <<<blocks, threads, 0, stream>>>(static_cast<T*>(grad_gate_up), static_cast<const T*>(grad_y),
                                           static_cast<const T*>(gate_up), rows, width, amax);
    }
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
