// SPDX-License-Identifier: MIT
// cross_entropy: a row of logits is read once, into registers where it is short, into the shared memory of one block or
// of a cluster of blocks where it is long, and its gradient is written over it from there.
#include <algorithm>

#include "kernels/activation_math.cuh"
#include "kernels/bulk_ring.cuh"
#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/device_utils.cuh"

namespace strata::kernels {
#ifdef STRATA_TUNE
extern int tune_blocks;
#else
constexpr int tune_blocks = 0;
#endif
namespace {

constexpr float kLog2E = 1.44269504f;

// What is known of a part of a row: the sum of exp(x - largest), so that nothing overflows, the sum of x, which only
// label smoothing asks for, and the target's logit, 0 where it lies in another part.
struct alignas(16) Part {
  float largest, exponentials, logits, of_target;

  __device__ static constexpr Part nothing() { return {-INFINITY, 0.0f, 0.0f, 0.0f}; }
  // What exponents start from: a part without any finite logit has the sum 0, not NaN.
  __device__ float base() const { return largest == -INFINITY ? 0.0f : largest; }
};

__device__ Part warp_merge(const Part& part) {
  Part whole = part;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    whole.largest = fmaxf(whole.largest, __shfl_xor_sync(0xffffffff, whole.largest, offset));
  }
  whole.exponentials = warp_sum(part.exponentials * exp2f((part.largest - whole.base()) * kLog2E));
  whole.logits = warp_sum(part.logits);
  whole.of_target = warp_sum(part.of_target);
  return whole;
}

// The whole block's part, in every thread. `turn` is 0 and 1 in turns: a warp that is a call ahead writes elsewhere,
// and one that is two calls ahead has passed a barrier that nobody reaches before he has read.
__device__ Part block_merge(Part part, int turn) {
  __shared__ Part warps[2][kWarp];
  part = warp_merge(part);
  if (threadIdx.x % kWarp == 0) warps[turn][threadIdx.x / kWarp] = part;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return warp_merge(lane < static_cast<int>(blockDim.x) / kWarp ? warps[turn][lane] : Part::nothing());
}

template <class T>
__device__ float exp2_of(float x) {
  return kIsHalf<T> ? fast_exp2(x) : exp2f(x);
}

// Takes one more vector of logits into the part.
template <class T>
__device__ void add(Part& part, const Packed<T>& x, bool with_logits) {
  constexpr int N = kVectorWidth<T>;
  float largest = x.at(0);
#pragma unroll
  for (int k = 1; k < N; ++k) largest = fmaxf(largest, x.at(k));
  if (largest > part.largest) {
    part.exponentials *= exp2_of<T>((part.largest - largest) * kLog2E);
    part.largest = largest;
  }
  const float base = part.base() * kLog2E;
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    even += exp2_of<T>(fmaf(x.at(k), kLog2E, -base));
    odd += exp2_of<T>(fmaf(x.at(k + 1), kLog2E, -base));
  }
  part.exponentials += even + odd;
  if (!with_logits) return;
#pragma unroll
  for (int k = 0; k < N; ++k) part.logits += x.at(k);
}

// Loss and gradient of a row from its sums.
struct Row {
  float loss;
  float offset, factor;  // gradient = factor * (exp2(x * log2(e) - offset) - everywhere), minus at_target for one class
  float everywhere, at_target;

  template <class T>
  __device__ float gradient(float x) const {
    return factor * (exp2_of<T>(fmaf(x, kLog2E, -offset)) - everywhere);
  }
};

__device__ Row finish(const Part& part, float scale, const CrossEntropyArguments& a) {
  const float log_total = part.largest + logf(part.exponentials);
  const float everywhere = a.label_smoothing / static_cast<float>(a.classes), rest = 1.0f - a.label_smoothing;
  return {log_total - rest * part.of_target - everywhere * part.logits, log_total * kLog2E, scale, everywhere,
          scale * rest};
}

__device__ void require_class(int64_t target, const CrossEntropyArguments& a) {
  if (target < 0 || target >= a.classes) __trap();
}

// The gradient of vector i; only one vector of a row has the target.
template <class T>
__device__ void store_gradient(uint4* gradient, int i, Packed<T> x, const Row& row, int target) {
  constexpr int N = kVectorWidth<T>;
  if (target >= i * N && target < (i + 1) * N) {
    x.fill([&](int k) { return row.gradient<T>(x.at(k)) - (k == target - i * N ? row.at_target : 0.0f); });
  } else {
    x.fill([&](int k) { return row.gradient<T>(x.at(k)); });
  }
  __stcs(gradient + i, x.words);
}

constexpr int kRegisterVectors = 8, kMaxRowThreads = 256;

// Short rows: a block has a row in its registers.
template <class T>
__global__ void __launch_bounds__(kMaxRowThreads) register_kernel(const CrossEntropyArguments a) {
  constexpr int N = kVectorWidth<T>;
  const int64_t row = blockIdx.x, target = a.targets[row];
  const int vectors_in_row = static_cast<int>(a.classes / N);
  uint4* gradient = static_cast<uint4*>(a.gradient) + row * vectors_in_row;
  if (target == a.ignore_index) {
    if (a.gradient != nullptr) {
      for (int i = threadIdx.x; i < vectors_in_row; i += blockDim.x) __stcs(gradient + i, uint4{});
    }
    if (threadIdx.x == 0) a.row_losses[row] = 0.0f;
    return;
  }
  require_class(target, a);
  const T* logits = static_cast<const T*>(a.logits) + row * a.classes;
  Packed<T> x[kRegisterVectors];
#pragma unroll
  for (int v = 0; v < kRegisterVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i < vectors_in_row) x[v].words = __ldcs(reinterpret_cast<const uint4*>(logits) + i);
  }
  Part part = Part::nothing();
  if (threadIdx.x == 0) part.of_target = to_float(logits[target]);
#pragma unroll
  for (int v = 0; v < kRegisterVectors; ++v) {
    x[v].stay_packed();
    if (threadIdx.x + v * blockDim.x < vectors_in_row) add(part, x[v], a.label_smoothing != 0.0f);
  }
  const Row result = finish(block_merge(part, 0), *a.scale, a);
  if (threadIdx.x == 0) a.row_losses[row] = result.loss;
  if (a.gradient == nullptr) return;
#pragma unroll
  for (int v = 0; v < kRegisterVectors; ++v) {
    x[v].stay_packed();
    const int i = threadIdx.x + v * blockDim.x;
    if (i < vectors_in_row) store_gradient(gradient, i, x[v], result, static_cast<int>(target));
  }
}

#ifndef STRATA_RING_WARPS
#define STRATA_RING_WARPS 16
#endif
constexpr int kRingWarps = STRATA_RING_WARPS, kStageVectors = kRingWarps * kWarp, kStages = 27 * 16 / kRingWarps,
              kMaxClusterBlocks = 8;
constexpr int kStageBytes = kStageVectors * sizeof(uint4);  // 27 stages are 216 KB of 227

// The vectors of a row that this block of the cluster has.
struct Share {
  int first, count;

  __device__ int stages() const { return (count + kStageVectors - 1) / kStageVectors; }
};

__device__ Share share_of_block(int vectors_in_row, int rank, int blocks) {
  const int first = vectors_in_row * rank / blocks;
  return {first, vectors_in_row * (rank + 1) / blocks - first};
}

// By thread 0: sends the rows of this block through the ring, but those that are ignored.
template <class T>
class RowSender {
 public:
  __device__ RowSender(const CrossEntropyArguments& a, RingBarriers<kStages>& barriers, uint4* ring, Share share,
                       int64_t first_row, int64_t row_step)
      : a_(a),
        barriers_(barriers),
        ring_(ring),
        share_(share),
        row_(first_row),
        row_step_(row_step),
        target_(target_of(first_row)),
        next_target_(target_of(first_row + row_step)) {}

  __device__ void send() {
    if (threadIdx.x != 0) return;
    while (row_ < a_.rows && target_ == a_.ignore_index) next_row();
    if (row_ >= a_.rows) return;
    SharedBarrier& full = barriers_.full[at_.stage];
    const int vectors = min(kStageVectors, share_.count - sent_), bytes = vectors * static_cast<int>(sizeof(uint4));
    barriers_.empty[at_.stage].wait(at_.turn ^ 1);
    full.arrive_expecting(bytes);
    const uint4* row = static_cast<const uint4*>(a_.logits) + row_ * (a_.classes / kVectorWidth<T>);
    copy_bulk(ring_ + at_.stage * kStageVectors, row + share_.first + sent_, bytes, full);
    at_.advance(kStages);
    sent_ += vectors;
    if (sent_ == share_.count) next_row();
  }

 private:
  // A row ahead, so that nobody waits for it.
  __device__ int64_t target_of(int64_t row) const { return row < a_.rows ? a_.targets[row] : 0; }

  __device__ void next_row() {
    sent_ = 0;
    row_ += row_step_;
    target_ = next_target_;
    next_target_ = target_of(row_ + row_step_);
  }

  const CrossEntropyArguments& a_;
  RingBarriers<kStages>& barriers_;
  uint4* ring_;
  Share share_;
  int64_t row_, row_step_, target_, next_target_;
  int sent_ = 0;  // vectors of the row
  RingPosition at_;
};

// The parts of a row that the blocks of a cluster tell each other.
struct ClusterParts {
  Part parts[2][kMaxClusterBlocks];
  SharedBarrier come[2];

  __device__ void init() {
    if (threadIdx.x == 0) {
      come[0].init(1);
      come[1].init(1);
      fence_initialized_barriers();
    }
    meet_cluster();
  }

  // `turn` is that of block_merge, `parity` changes each time it comes back.
  __device__ Part merge(const Part& own, int rank, int blocks, int turn, int parity) {
    if (threadIdx.x == 0) come[turn].arrive_expecting(blocks * static_cast<int>(sizeof(Part)));
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (static_cast<int>(threadIdx.x) < blocks) {
      asm volatile(
          "{\n.reg .b32 part, barrier;\n"
          "mapa.shared::cluster.u32 part, %0, %2;\n"
          "mapa.shared::cluster.u32 barrier, %1, %2;\n"
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [part], {%3, %4, %5, %6}, [barrier];\n}" ::"r"(
              shared_address(&parts[turn][rank])),
          "r"(shared_address(&come[turn])), "r"(threadIdx.x), "r"(__float_as_uint(own.largest)),
          "r"(__float_as_uint(own.exponentials)), "r"(__float_as_uint(own.logits)), "r"(__float_as_uint(own.of_target))
          : "memory");
    }
    come[turn].wait_for_cluster(parity);
    return warp_merge(lane < blocks ? parts[turn][lane] : Part::nothing());
  }
};

// Long rows: the blocks of a cluster have a row in their shared memory, and the next one on its way.
template <class T>
__global__ void __launch_bounds__(kRingWarps* kWarp) ring_kernel(const CrossEntropyArguments a) {
  constexpr int N = kVectorWidth<T>;
  extern __shared__ uint4 ring[];
  __shared__ RingBarriers<kStages> barriers;
  __shared__ ClusterParts cluster;
  const int blocks = cluster_blocks(), rank = static_cast<int>(blockIdx.x) % blocks;
  const int64_t first_row = blockIdx.x / blocks, row_step = gridDim.x / blocks, vectors_in_row = a.classes / N;
  const Share share = share_of_block(static_cast<int>(vectors_in_row), rank, blocks);
  const float scale = *a.scale;
  const bool with_logits = a.label_smoothing != 0.0f;
  barriers.init(kStages, kRingWarps);
  cluster.init();
  RowSender<T> sender(a, barriers, ring, share, first_row, row_step);
  for (int i = 0; i < kStages; ++i) sender.send();
  bool behind = false;  // a stage lies between readers and sender: nobody waits for the last warp
  const auto release = [&](int stage) {
    barriers.release(stage);
    if (behind) sender.send();
    behind = true;
  };
  RingPosition at;
  int turn = 0, parity = 0;
  int64_t next_target = first_row < a.rows ? a.targets[first_row] : 0;
  for (int64_t row = first_row; row < a.rows; row += row_step) {
    const int64_t target = next_target;
    if (row + row_step < a.rows) next_target = a.targets[row + row_step];
    uint4* gradient = static_cast<uint4*>(a.gradient) + row * vectors_in_row + share.first;
    if (target == a.ignore_index) {
      if (a.gradient != nullptr) {
        for (int i = threadIdx.x; i < share.count; i += blockDim.x) __stcs(gradient + i, uint4{});
      }
      if (rank == 0 && threadIdx.x == 0) a.row_losses[row] = 0.0f;
      continue;
    }
    require_class(target, a);
    const int target_here = static_cast<int>(target) - share.first * N;  // counted from this block's share
    const RingPosition start = at;
    Part part = Part::nothing();
    for (int i = threadIdx.x, stage = 0; stage < share.stages(); ++stage, i += kStageVectors, at.advance(kStages)) {
      barriers.full[at.stage].wait(at.turn);
      if (i < share.count) {
        const uint4* source = ring + at.stage * kStageVectors + threadIdx.x;
        add(part, Packed<T>{*source}, with_logits);
        if (target_here >= i * N && target_here < (i + 1) * N) {
          part.of_target = to_float(reinterpret_cast<const T*>(source)[target_here - i * N]);
        }
      }
      if (a.gradient == nullptr) release(at.stage);
    }
    part = block_merge(part, turn);
    if (blocks > 1) part = cluster.merge(part, rank, blocks, turn, parity);
    parity ^= turn;
    turn ^= 1;
    const Row result = finish(part, scale, a);
    if (rank == 0 && threadIdx.x == 0) a.row_losses[row] = result.loss;
    if (a.gradient == nullptr) continue;
    RingPosition again = start;
    for (int i = threadIdx.x, stage = 0; stage < share.stages(); ++stage, i += kStageVectors, again.advance(kStages)) {
      if (i < share.count) {
        store_gradient(gradient, i, Packed<T>{ring[again.stage * kStageVectors + threadIdx.x]}, result, target_here);
      }
      release(again.stage);
    }
  }
  meet_cluster();  // nobody leaves while another may write to his memory
}

// Any number of classes and any alignment: a block reads the row twice.
template <class T>
__global__ void any_kernel(const CrossEntropyArguments a) {
  const int64_t row = blockIdx.x, target = a.targets[row];
  const T* logits = static_cast<const T*>(a.logits) + row * a.classes;
  T* gradient = static_cast<T*>(a.gradient) + row * a.classes;
  if (target == a.ignore_index) {
    if (a.gradient != nullptr) {
      for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) gradient[i] = from_float<T>(0.0f);
    }
    if (threadIdx.x == 0) a.row_losses[row] = 0.0f;
    return;
  }
  require_class(target, a);
  Part part = Part::nothing();
  if (threadIdx.x == 0) part.of_target = to_float(logits[target]);
  for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) {
    const float x = to_float(logits[i]);
    if (x > part.largest) {
      part.exponentials *= exp2f((part.largest - x) * kLog2E);
      part.largest = x;
    }
    part.exponentials += exp2f((x - part.base()) * kLog2E);
    if (a.label_smoothing != 0.0f) part.logits += x;
  }
  const Row result = finish(block_merge(part, 0), *a.scale, a);
  if (threadIdx.x == 0) a.row_losses[row] = result.loss;
  if (a.gradient == nullptr) return;
  for (int64_t i = threadIdx.x; i < a.classes; i += blockDim.x) {
    const float value = result.gradient<T>(to_float(logits[i]));
    gradient[i] = from_float<T>(i == target ? value - result.at_target : value);
  }
}

constexpr int kSumThreads = 1024;

// loss = scale * sum of the rows' losses, in fp64 and in a fixed order.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(float* loss, const float* row_losses, int64_t rows, const float* scale) {
  __shared__ double sums[kSumThreads];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < rows; i += kSumThreads) sum += row_losses[i];
  sums[threadIdx.x] = sum;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss = static_cast<float>(sums[0] * *scale);
}

template <class T>
cudaError_t launch_ring(const CrossEntropyArguments& a, int blocks, cudaStream_t stream) {
  constexpr int kBytes = kStages * kStageBytes;
  const cudaError_t status = cudaFuncSetAttribute(ring_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  // Of 132 multiprocessors 128 have room for clusters of 4 and of 8: a cluster lies in one of the chip's parts of 16
  // or 18.
  const int64_t clusters = (blocks <= 2 ? kMultiprocessors : 128) / blocks;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min(a.rows, clusters) * blocks));
  config.blockDim = dim3(kRingWarps * kWarp);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ring_kernel<T>, a);
}

// How many blocks share a row so that the ring has room for another half of it; 0: too many.
int cluster_blocks_for(int64_t vectors) {
  if (tune_blocks > 0) return tune_blocks;
  for (int blocks = 1; blocks <= kMaxClusterBlocks; blocks *= 2) {
    if (ceil_divide<int64_t>(vectors, blocks * kStageVectors) <= kStages * 2 / 3) return blocks;
  }
  return 0;
}

}  // namespace

cudaError_t launch_cross_entropy(const CrossEntropyArguments& a, cudaStream_t stream) {
  if (a.rows > 0) {
    const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
      const int64_t vectors = a.classes / kVectorWidth<T>;
      const bool whole = a.classes % kVectorWidth<T> == 0 && are_aligned(a.logits, a.gradient);
      if (whole && vectors <= kRegisterVectors * kMaxRowThreads) {
        const int64_t threads = ceil_divide<int64_t>(vectors, kRegisterVectors * kWarp) * kWarp;
        register_kernel<T><<<static_cast<unsigned>(a.rows), static_cast<unsigned>(threads), 0, stream>>>(a);
        return cudaGetLastError();
      }
      const int blocks = whole ? cluster_blocks_for(vectors) : 0;
      if (blocks > 0) return launch_ring<T>(a, blocks, stream);
      any_kernel<T><<<static_cast<unsigned>(a.rows), 1024, 0, stream>>>(a);
      return cudaGetLastError();
    });
    if (status != cudaSuccess) return status;
  }
  sum_kernel<<<1, kSumThreads, 0, stream>>>(a.loss, a.row_losses, a.rows, a.scale);
  return cudaGetLastError();
}

}  // namespace strata::kernels
