// SPDX-License-Identifier: MIT
// rms_norm_rotary, forward and backward. A team of neighboring threads of a warp has one head at a time: each thread
// keeps a vector of the first half of the head and the vector of the second half that is rotated with it.
#include <algorithm>

#include "kernels/cuda/code.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/sum_partials.cuh"
#include "kernels/rms_norm_rotary/rms_norm_rotary_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kForwardHeads = 2, kBackwardHeads = 2;  // heads that a thread loads at once

// The sum over `lanes` neighboring threads, a power of two.
__device__ float team_sum(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
  return value;
}

// The elements of one thread: a vector of each half of a head.
template <class T>
struct Halves {
  Packed<T> first, second;

  __device__ static Halves zeros() { return {{make_uint4(0, 0, 0, 0)}, {make_uint4(0, 0, 0, 0)}}; }
  // `half` is the distance of the halves in vectors.
  __device__ static Halves load(const void* head, int lane, int half) {
    const uint4* vectors = static_cast<const uint4*>(head) + lane;
    return {{vectors[0]}, {vectors[half]}};
  }
  __device__ static Halves load_streaming(const void* head, int lane, int half) {
    const uint4* vectors = static_cast<const uint4*>(head) + lane;
    return {{__ldcs(vectors)}, {__ldcs(vectors + half)}};
  }
  __device__ void store(void* head, int lane, int half) const {
    uint4* vectors = static_cast<uint4*>(head) + lane;
    __stcs(vectors, first.words);
    __stcs(vectors + half, second.words);
  }
  __device__ float square() const {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Packed<T>::kWidth; ++k) {
      sum = fmaf(first.at(k), first.at(k), sum);
      sum = fmaf(second.at(k), second.at(k), sum);
    }
    return sum;
  }
};

// Cosine and sine of one thread's elements.
template <int N>
struct Angles {
  float cosine[N], sine[N];

  __device__ Angles(const RmsNormRotaryInputs& in, unsigned row, int lane) {
    const int64_t offset = int64_t{row % static_cast<unsigned>(in.positions)} * (in.head_width / 2) + lane * N;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      *reinterpret_cast<float4*>(cosine + k) = *reinterpret_cast<const float4*>(in.cosine + offset + k);
      *reinterpret_cast<float4*>(sine + k) = *reinterpret_cast<const float4*>(in.sine + offset + k);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const RmsNormRotaryInputs in, T* y, int lanes) {
  constexpr int N = kVectorWidth<T>;
  const int lane = threadIdx.x % lanes, half = in.head_width / 2 / N;
  const int all_heads = in.heads + 2 * in.key_value_heads, teams = kThreads / lanes;
  const int64_t heads = in.rows * all_heads;
  const int64_t begin = int64_t{blockIdx.x} * teams * kForwardHeads + threadIdx.x / lanes;
  const T* qkv = static_cast<const T*>(in.qkv);
  Halves<T> x[kForwardHeads];
#pragma unroll
  for (int i = 0; i < kForwardHeads; ++i) {
    const int64_t head = begin + i * teams;
    x[i] = head < heads && lane < half ? Halves<T>::load_streaming(qkv + head * in.head_width, lane, half)
                                       : Halves<T>::zeros();
  }
#pragma unroll
  for (int i = 0; i < kForwardHeads; ++i) {
    const int64_t head = begin + i * teams;
    const float rstd = rsqrtf(team_sum(x[i].square(), lanes) / in.head_width + in.eps);
    if (head >= heads || lane >= half) continue;
    const unsigned row = static_cast<unsigned>(head) / all_heads;  // 64 bits would take four times the instructions
    const int head_in_row = static_cast<int>(static_cast<unsigned>(head) - row * all_heads);
    if (head_in_row < in.heads + in.key_value_heads) {
      const void* weight = head_in_row < in.heads ? in.query_weight : in.key_weight;
      const Halves<T> w = Halves<T>::load(weight, lane, half);
      const Angles<N> angles(in, row, lane);
      const auto first = [&](int k) { return x[i].first.at(k) * rstd * w.first.at(k); };
      const auto second = [&](int k) { return x[i].second.at(k) * rstd * w.second.at(k); };
      Halves<T> rotated;
      rotated.first.fill([&](int k) { return first(k) * angles.cosine[k] - second(k) * angles.sine[k]; });
      rotated.second.fill([&](int k) { return second(k) * angles.cosine[k] + first(k) * angles.sine[k]; });
      x[i] = rotated;
    }
    x[i].store(y + head * in.head_width, lane, half);
  }
}

// Heads of one kind, counted over all rows: head h is of row h / heads_per_row.
struct Kind {
  const void* weight;
  int first, heads_per_row;  // the kind's first head in a row, and the number of its heads
  int64_t block, heads;

  __device__ explicit Kind(const RmsNormRotaryBackward& a) {
    const bool is_query = blockIdx.x < a.blocks.queries;
    weight = is_query ? a.in.query_weight : a.in.key_weight;
    first = is_query ? 0 : a.in.heads;
    heads_per_row = is_query ? a.in.heads : a.in.key_value_heads;
    block = is_query ? blockIdx.x : blockIdx.x - a.blocks.queries;
    heads = a.in.rows * heads_per_row;
  }
};

// With g = weight * gradient rotated back and n = x * rstd:
//   grad_x = rstd * (g - n * mean(g * n)), grad_weight = sum over heads and rows of (gradient rotated back) * n
template <class T>
__global__ void __launch_bounds__(kThreads, 2) backward_kernel(const RmsNormRotaryBackward a, int lanes) {
  constexpr int N = kVectorWidth<T>;
  extern __shared__ float sums_of_teams[];  // [teams, head_width]
  const RmsNormRotaryInputs& in = a.in;
  const Kind kind(a);
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kThreads / lanes;
  const int half = in.head_width / 2 / N, all_heads = in.heads + 2 * in.key_value_heads;
  const bool has_columns = lane < half;
  const Halves<T> weight = has_columns ? Halves<T>::load(kind.weight, lane, half) : Halves<T>::zeros();
  const int64_t begin = kind.block * a.blocks.heads_of_block, end = min(kind.heads, begin + a.blocks.heads_of_block);
  float first_sums[N] = {}, second_sums[N] = {};
  for (int64_t start = begin; start < end; start += teams * kBackwardHeads) {
    Halves<T> x[kBackwardHeads], gradient[kBackwardHeads];
    unsigned row[kBackwardHeads];
    int64_t offset[kBackwardHeads];
    bool is_here[kBackwardHeads];
#pragma unroll
    for (int i = 0; i < kBackwardHeads; ++i) {
      const int64_t head = start + team + i * teams;
      is_here[i] = head < end && has_columns;
      row[i] = is_here[i] ? static_cast<unsigned>(head) / kind.heads_per_row : 0;
      offset[i] = (int64_t{row[i]} * (all_heads - kind.heads_per_row) + kind.first + head) * in.head_width;
      x[i] = is_here[i] ? Halves<T>::load_streaming(static_cast<const T*>(in.qkv) + offset[i], lane, half)
                        : Halves<T>::zeros();
      gradient[i] = is_here[i] ? Halves<T>::load_streaming(static_cast<const T*>(a.gradient) + offset[i], lane, half)
                               : Halves<T>::zeros();
    }
#pragma unroll
    for (int i = 0; i < kBackwardHeads; ++i) {
      const Angles<N> angles(in, row[i], has_columns ? lane : 0);
      const auto first = [&](int k) {
        return gradient[i].first.at(k) * angles.cosine[k] + gradient[i].second.at(k) * angles.sine[k];
      };
      const auto second = [&](int k) {
        return gradient[i].second.at(k) * angles.cosine[k] - gradient[i].first.at(k) * angles.sine[k];
      };
      float along = 0.0f;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        along = fmaf(first(k) * weight.first.at(k), x[i].first.at(k), along);
        along = fmaf(second(k) * weight.second.at(k), x[i].second.at(k), along);
      }
      const float rstd = rsqrtf(team_sum(x[i].square(), lanes) / in.head_width + in.eps);
      const float factor = team_sum(along, lanes) * rstd * rstd / in.head_width;
      if (!is_here[i]) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        first_sums[k] = fmaf(first(k), x[i].first.at(k) * rstd, first_sums[k]);
        second_sums[k] = fmaf(second(k), x[i].second.at(k) * rstd, second_sums[k]);
      }
      Halves<T> result;
      result.first.fill([&](int k) { return rstd * (first(k) * weight.first.at(k) - x[i].first.at(k) * factor); });
      result.second.fill([&](int k) { return rstd * (second(k) * weight.second.at(k) - x[i].second.at(k) * factor); });
      result.store(static_cast<T*>(a.gradient) + offset[i], lane, half);
    }
  }
  if (has_columns) {
    float* own = sums_of_teams + team * in.head_width + lane * N;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      own[k] = first_sums[k];
      own[in.head_width / 2 + k] = second_sums[k];
    }
  }
  __syncthreads();
  for (int column = threadIdx.x; column < in.head_width; column += kThreads) {
    float sum = 0.0f;
    for (int t = 0; t < teams; ++t) sum += sums_of_teams[t * in.head_width + column];
    a.partials[int64_t{blockIdx.x} * in.head_width + column] = sum;
  }
}

// For any size and alignment: a warp reads a head twice.
template <class T>
__global__ void forward_any_kernel(const RmsNormRotaryInputs in, T* y) {
  const int lane = threadIdx.x % kWarp, half = in.head_width / 2, all_heads = in.heads + 2 * in.key_value_heads;
  const int64_t first_head = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  for (int64_t head = first_head; head < in.rows * all_heads; head += int64_t{gridDim.x} * blockDim.x / kWarp) {
    const T* x = static_cast<const T*>(in.qkv) + head * in.head_width;
    T* result = y + head * in.head_width;
    const int64_t row = head / all_heads, head_in_row = head % all_heads, angle = row % in.positions * half;
    float square = 0.0f;
    for (int i = lane; i < in.head_width; i += kWarp) square = fmaf(to_float(x[i]), to_float(x[i]), square);
    const float rstd = rsqrtf(warp_sum(square) / in.head_width + in.eps);
    const T* weight = static_cast<const T*>(head_in_row < in.heads ? in.query_weight : in.key_weight);
    const bool is_value = head_in_row >= in.heads + in.key_value_heads;
    for (int i = lane; i < half; i += kWarp) {
      if (is_value) {
        result[i] = x[i];
        result[half + i] = x[half + i];
        continue;
      }
      const float first = to_float(x[i]) * rstd * to_float(weight[i]);
      const float second = to_float(x[half + i]) * rstd * to_float(weight[half + i]);
      const float c = in.cosine[angle + i], s = in.sine[angle + i];
      result[i] = from_float<T>(first * c - second * s);
      result[half + i] = from_float<T>(second * c + first * s);
    }
  }
}

// A block is one warp. It keeps its sums in its row of the workspace, where each thread uses its own columns only.
template <class T>
__global__ void backward_any_kernel(const RmsNormRotaryBackward a) {
  const RmsNormRotaryInputs& in = a.in;
  const Kind kind(a);
  const int lane = threadIdx.x, half = in.head_width / 2, all_heads = in.heads + 2 * in.key_value_heads;
  const T* weight = static_cast<const T*>(kind.weight);
  float* sums = a.partials + int64_t{blockIdx.x} * in.head_width;
  for (int i = lane; i < half; i += kWarp) sums[i] = sums[half + i] = 0.0f;
  const int64_t begin = kind.block * a.blocks.heads_of_block, end = min(kind.heads, begin + a.blocks.heads_of_block);
  for (int64_t head = begin; head < end; ++head) {
    const int64_t row = head / kind.heads_per_row, angle = row % in.positions * half;
    const int64_t offset = (row * all_heads + kind.first + head % kind.heads_per_row) * in.head_width;
    const T* x = static_cast<const T*>(in.qkv) + offset;
    T* gradient = static_cast<T*>(a.gradient) + offset;
    const auto first = [&](int i) {
      return to_float(gradient[i]) * in.cosine[angle + i] + to_float(gradient[half + i]) * in.sine[angle + i];
    };
    const auto second = [&](int i) {
      return to_float(gradient[half + i]) * in.cosine[angle + i] - to_float(gradient[i]) * in.sine[angle + i];
    };
    float square = 0.0f, along = 0.0f;
    for (int i = lane; i < half; i += kWarp) {
      const float x1 = to_float(x[i]), x2 = to_float(x[half + i]);
      square += x1 * x1 + x2 * x2;
      along += first(i) * to_float(weight[i]) * x1 + second(i) * to_float(weight[half + i]) * x2;
    }
    const float rstd = rsqrtf(warp_sum(square) / in.head_width + in.eps);
    const float factor = warp_sum(along) * rstd * rstd / in.head_width;
    for (int i = lane; i < half; i += kWarp) {
      const float x1 = to_float(x[i]), x2 = to_float(x[half + i]), g1 = first(i), g2 = second(i);
      sums[i] += g1 * x1 * rstd;
      sums[half + i] += g2 * x2 * rstd;
      gradient[i] = from_float<T>(rstd * (g1 * to_float(weight[i]) - x1 * factor));
      gradient[half + i] = from_float<T>(rstd * (g2 * to_float(weight[half + i]) - x2 * factor));
    }
  }
}

// Threads of a team: the vectors of half a head, rounded up to a power of two. 0: only the kernels for any size fit.
int lanes_of(const RmsNormRotaryInputs& in, const void* written) {
  const int vector = in.type == CudaType::float32 ? kVectorWidth<float> : kVectorWidth<__half>;
  const int half = in.head_width / 2;
  if (half == 0 || half % vector != 0 || half / vector > kWarp) return 0;
  if (in.rows * (in.heads + 2 * in.key_value_heads) > INT32_MAX) return 0;
  if (!are_aligned(written, in.qkv, in.query_weight, in.key_weight, in.cosine, in.sine)) return 0;
  int lanes = 1;
  while (lanes < half / vector) lanes *= 2;
  return lanes;
}

}  // namespace

namespace STRATA_THIS_CODE {

cudaError_t launch_rms_norm_rotary_forward(const RmsNormRotaryInputs& in, void* y, cudaStream_t stream) {
  const int64_t heads = in.rows * (in.heads + 2 * in.key_value_heads);
  if (heads == 0) return cudaSuccess;
  const int lanes = lanes_of(in, y);
  return visit_type(in.type, [&]<class T>(T) {
    if (lanes > 0) {
      const int64_t blocks = ceil_divide<int64_t>(heads, kThreads / lanes * kForwardHeads);
      forward_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(in, static_cast<T*>(y), lanes);
    } else {
      const int64_t blocks = std::min<int64_t>(ceil_divide<int64_t>(heads, kThreads / kWarp), 1 << 20);
      forward_any_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(in, static_cast<T*>(y));
    }
    return cudaGetLastError();
  });
}

cudaError_t launch_rms_norm_rotary_backward(const RmsNormRotaryBackward& a, cudaStream_t stream) {
  const int lanes = lanes_of(a.in, a.gradient), width = a.in.head_width;
  const auto blocks = static_cast<unsigned>(a.blocks.queries + a.blocks.keys);
  if (blocks > 0) {
    const cudaError_t status = visit_type(a.in.type, [&]<class T>(T) {
      if (lanes > 0) {
        const size_t shared = sizeof(float) * (kThreads / lanes) * width;
        backward_kernel<T><<<blocks, kThreads, shared, stream>>>(a, lanes);
      } else {
        backward_any_kernel<T><<<blocks, kWarp, 0, stream>>>(a);
      }
      return cudaGetLastError();
    });
    if (status != cudaSuccess) return status;
  }
  return sum_partials<kThisCode>({a.query, a.partials, a.blocks.queries},
                                 {a.key, a.partials + a.blocks.queries * width, a.blocks.keys}, width, stream);
}

}  // namespace STRATA_THIS_CODE
}  // namespace strata::kernels
