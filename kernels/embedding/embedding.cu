// SPDX-License-Identifier: MIT
// embedding. The forward gathers rows. The backward sorts the positions by index (stable, so that equal indices keep
// their order), cuts the sorted positions into pieces of equal length and sums each run of equal indices. A run inside
// one piece is written at once. Longer runs leave a partial sum per piece, and these are added in order.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/launch_overlapped.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kMaxThreads = 256;
// Positions per piece. Even if one token fills the whole batch, as many blocks as there are pieces sum it.
constexpr int kPiece = 32;
// Rows that a thread loads at once. With 8 rows a multiprocessor holds fewer threads (65536 x 768 of 50304: 133 us
// instead of 102).
constexpr int kAhead = 4;

// blockIdx.x is a row of y; a thread copies words W of it.
template <class W>
__global__ void forward_kernel(W* y, const int64_t* indices, const W* weight, int64_t count, int64_t vocabulary,
                               int64_t words) {
  // The launch waits for the kernel before, so this kernel need not. In generation the next product, which starts
  // early, loads its weight meanwhile.
  let_next_kernel_start();
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const int64_t index = indices[row];
    if (index < 0 || index >= vocabulary) __trap();
    for (int64_t i = threadIdx.x; i < words; i += blockDim.x) y[row * words + i] = weight[index * words + i];
  }
}

// The sort keys, which have fewer bits than indices. An index outside the vocabulary becomes the largest key and is
// found later.
__global__ void keys_kernel(unsigned* keys, int* positions, const int64_t* indices, int64_t count, int64_t vocabulary) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t index = indices[i];
  keys[i] = static_cast<unsigned>(index >= 0 && index < vocabulary ? index : vocabulary);
  positions[i] = static_cast<int>(i);
}

struct Sorted {
  const unsigned* indices;
  const int* positions;
  float* heads;  // [pieces, width]: sums of the run that continues from the previous piece
  float* tails;  // [pieces, width]: sums of the run that starts in a piece and continues in the next
  int64_t pieces;
};

// Sums of N adjacent columns of a row.
template <int N>
struct Sum {
  float values[N] = {};

  template <class T>
  __device__ void add(const Vector<T, N>& row) {
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] += to_float(row.elements[k]);
  }
  __device__ void store_partial(float* partial) const {
    Vector<float, N> row;
#pragma unroll
    for (int k = 0; k < N; ++k) row.elements[k] = values[k];
    *reinterpret_cast<Vector<float, N>*>(partial) = row;
  }
  template <class G>
  __device__ void write(G* gradient, bool accumulate) const {
    auto* target = reinterpret_cast<Vector<G, N>*>(gradient);
    Vector<G, N> row = {};
    if (accumulate) row = *target;
#pragma unroll
    for (int k = 0; k < N; ++k) row.elements[k] = from_float<G>(to_float(row.elements[k]) + values[k]);
    *target = row;
  }
};

// The first of this thread's N columns, from blockIdx.y and the thread.
template <int N>
__device__ int64_t own_column() {
  return (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
}

// Sums the runs of a piece.
template <class T, class G, int N>
__device__ void sum_piece(const EmbeddingBackward& a, const Sorted& sorted, int64_t piece) {
  __shared__ unsigned indices[kPiece + 2];  // with one neighbor on each side
  __shared__ int positions[kPiece];
  const int64_t first = piece * kPiece;
  const int count = static_cast<int>(min(static_cast<int64_t>(kPiece), a.count - first));
  const bool is_first = first == 0, is_last = first + count == a.count;
  for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += static_cast<int>(blockDim.x)) {
    const bool exists = !(i == 0 && is_first) && !(i == count + 1 && is_last);
    if (exists) indices[i] = sorted.indices[first - 1 + i];
    if (i < count) positions[i] = sorted.positions[first + i];
  }
  __syncthreads();
  const int64_t column = own_column<N>();
  if (column >= a.width) return;
  const bool continues_previous = !is_first && indices[0] == indices[1],
             continues_in_next = !is_last && indices[count] == indices[count + 1];
  const T* grad_y = static_cast<const T*>(a.grad_y) + column;
  bool in_first_run = true;
  Sum<N> sum;
  for (int begin = 0; begin < count; begin += kAhead) {
    Vector<T, N> rows[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (begin + j >= count) break;
      rows[j] = load_streaming(reinterpret_cast<const Vector<T, N>*>(grad_y + positions[begin + j] * a.width));
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = begin + j;
      if (i >= count) break;
      sum.add(rows[j]);
      const bool is_end = i + 1 == count;
      const unsigned index = indices[i + 1];
      if (!is_end && indices[i + 2] == index) continue;
      if (index >= a.vocabulary) __trap();
      if (in_first_run && continues_previous) {
        sum.store_partial(sorted.heads + piece * a.width + column);
      } else if (is_end && continues_in_next) {
        sum.store_partial(sorted.tails + piece * a.width + column);
      } else {
        sum.write(static_cast<G*>(a.gradient) + index * a.width + column, a.add);
      }
      in_first_run = false;
      sum = {};
    }
  }
}

__device__ bool is_used(const Sorted& sorted, int64_t count, unsigned index) {
  int64_t low = 0, high = count;  // the first sorted position whose index is not below `index`
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sorted.indices[middle] < index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && sorted.indices[low] == index;
}

// Writes zeros to the rows of weight that no index uses. A block checks as many rows as it has threads, one per thread.
template <class G, int N>
__device__ void clear_unused_rows(const EmbeddingBackward& a, const Sorted& sorted, int64_t first) {
  __shared__ bool used[kMaxThreads];
  const int count = static_cast<int>(min(static_cast<int64_t>(blockDim.x), a.vocabulary - first));
  const int own = static_cast<int>(threadIdx.x);
  if (own < count) used[own] = is_used(sorted, a.count, static_cast<unsigned>(first + own));
  __syncthreads();
  const int64_t column = own_column<N>();
  if (column >= a.width) return;
  for (int i = 0; i < count; ++i) {
    if (!used[i]) Sum<N>().write(static_cast<G*>(a.gradient) + (first + i) * a.width + column, false);
  }
}

// blockIdx.x is a piece or, after the pieces, a group of blockDim.x rows of weight.
template <class T, class G, int N>
__global__ void __launch_bounds__(kMaxThreads) pieces_kernel(const EmbeddingBackward a, const Sorted sorted) {
  if (blockIdx.x < sorted.pieces) {
    sum_piece<T, G, N>(a, sorted, blockIdx.x);
  } else {
    clear_unused_rows<G, N>(a, sorted, (blockIdx.x - sorted.pieces) * blockDim.x);
  }
}

// blockIdx.x is a piece. If a run that continues starts in it, the block adds up the run's partial sums.
template <class G, int N>
__global__ void __launch_bounds__(kMaxThreads) runs_kernel(const EmbeddingBackward a, const Sorted sorted) {
  const int64_t column = own_column<N>(), first = static_cast<int64_t>(blockIdx.x) * kPiece, next = first + kPiece;
  if (column >= a.width || next >= a.count) return;
  const unsigned index = sorted.indices[next - 1];
  const bool continues_previous = first > 0 && sorted.indices[first - 1] == index;
  if (continues_previous || sorted.indices[next] != index) return;
  using Partial = Vector<float, N>;
  Sum<N> sum;
  sum.add(*reinterpret_cast<const Partial*>(sorted.tails + blockIdx.x * a.width + column));
  bool continues_in_next = true;
  for (int64_t begin = blockIdx.x + 1; continues_in_next; begin += kAhead) {
    Partial partials[kAhead];
    bool belongs[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      belongs[j] = begin + j < sorted.pieces && sorted.indices[(begin + j) * kPiece] == index;
      if (belongs[j]) partials[j] = *reinterpret_cast<const Partial*>(sorted.heads + (begin + j) * a.width + column);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (belongs[j]) sum.add(partials[j]);
    }
    continues_in_next = belongs[kAhead - 1];
  }
  sum.write(static_cast<G*>(a.gradient) + index * a.width + column, a.add);
}

int64_t aligned_up(int64_t bytes) { return ceil_divide<int64_t>(bytes, 256) * 256; }

// Offsets in bytes of the parts of the workspace.
struct Workspace {
  int64_t keys, sorted_keys, positions, sorted_positions, heads, tails, sort, total;
};

cudaError_t sort(void* memory, size_t& bytes, const unsigned* keys, unsigned* sorted_keys, const int* positions,
                 int* sorted_positions, const EmbeddingBackward& a, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, positions, sorted_positions,
                                         static_cast<int>(a.count), 0,
                                         std::bit_width(static_cast<uint64_t>(a.vocabulary)), stream);
}

Workspace workspace_of(const EmbeddingBackward& a) {
  const int64_t sums = aligned_up(ceil_divide<int64_t>(a.count, kPiece) * a.width * sizeof(float));
  const int64_t words = aligned_up(a.count * sizeof(int));
  size_t sort_bytes = 0;
  sort(nullptr, sort_bytes, nullptr, nullptr, nullptr, nullptr, a, nullptr);
  Workspace w = {};
  w.sorted_keys = w.keys + words;
  w.positions = w.sorted_keys + words;
  w.sorted_positions = w.positions + words;
  w.heads = w.sorted_positions + words;
  w.tails = w.heads + sums;
  w.sort = w.tails + sums;
  w.total = w.sort + aligned_up(sort_bytes);
  return w;
}

constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

template <class W>
cudaError_t gather(void* y, const int64_t* indices, const void* weight, int64_t count, int64_t vocabulary,
                   int64_t words, cudaStream_t stream) {
  const int threads = static_cast<int>(std::min<int64_t>(ceil_divide<int64_t>(words, kWarp) * kWarp, kMaxThreads));
  forward_kernel<W><<<static_cast<unsigned>(std::min(count, kMaxBlocks)), threads, 0, stream>>>(
      static_cast<W*>(y), indices, static_cast<const W*>(weight), count, vocabulary, words);
  return cudaGetLastError();
}

template <class T, class G, int N>
cudaError_t sum_runs(const EmbeddingBackward& a, const Sorted& sorted, cudaStream_t stream) {
  const int64_t columns = ceil_divide<int64_t>(a.width, N);
  const int threads = static_cast<int>(std::min<int64_t>(ceil_divide<int64_t>(columns, kWarp) * kWarp, kMaxThreads));
  const int64_t clearing = a.add ? 0 : ceil_divide<int64_t>(a.vocabulary, threads);
  const auto across = static_cast<unsigned>(ceil_divide<int64_t>(columns, threads));
  if (sorted.pieces + clearing == 0) return cudaSuccess;
  pieces_kernel<T, G, N>
      <<<dim3(static_cast<unsigned>(sorted.pieces + clearing), across), threads, 0, stream>>>(a, sorted);
  if (sorted.pieces > 1) {
    runs_kernel<G, N><<<dim3(static_cast<unsigned>(sorted.pieces), across), threads, 0, stream>>>(a, sorted);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_embedding_forward(CudaType type, void* y, const int64_t* indices, const void* weight, int64_t count,
                                     int64_t vocabulary, int64_t width, cudaStream_t stream) {
  if (count == 0 || width == 0) return cudaSuccess;
  const int64_t bytes = width * (type == CudaType::float32 ? 4 : 2);
  if (bytes % 16 == 0 && are_aligned(y, weight)) {
    return gather<uint4>(y, indices, weight, count, vocabulary, bytes / 16, stream);
  }
  if (type == CudaType::float32) return gather<float>(y, indices, weight, count, vocabulary, width, stream);
  return gather<unsigned short>(y, indices, weight, count, vocabulary, width, stream);
}

int64_t embedding_backward_workspace(const EmbeddingBackward& a) { return workspace_of(a).total; }

cudaError_t launch_embedding_backward(const EmbeddingBackward& a, void* workspace, cudaStream_t stream) {
  if (a.width == 0 || a.vocabulary == 0) return cudaSuccess;
  const Workspace w = workspace_of(a);
  char* base = static_cast<char*>(workspace);
  auto* sorted_keys = reinterpret_cast<unsigned*>(base + w.sorted_keys);
  auto* sorted_positions = reinterpret_cast<int*>(base + w.sorted_positions);
  if (a.count > 0) {
    auto* keys = reinterpret_cast<unsigned*>(base + w.keys);
    auto* positions = reinterpret_cast<int*>(base + w.positions);
    keys_kernel<<<static_cast<unsigned>(ceil_divide<int64_t>(a.count, kMaxThreads)), kMaxThreads, 0, stream>>>(
        keys, positions, a.indices, a.count, a.vocabulary);
    size_t bytes = static_cast<size_t>(w.total - w.sort);
    const cudaError_t status = sort(base + w.sort, bytes, keys, sorted_keys, positions, sorted_positions, a, stream);
    if (status != cudaSuccess) return status;
  }
  const Sorted sorted = {sorted_keys, sorted_positions, reinterpret_cast<float*>(base + w.heads),
                         reinterpret_cast<float*>(base + w.tails), ceil_divide<int64_t>(a.count, kPiece)};
  return visit_type(a.type, [&]<class T>(T) {
    return visit_type(a.gradient_type, [&]<class G>(G) {
      // Columns per thread: 16 bytes of the wider type.
      constexpr int N = std::min(kVectorWidth<T>, kVectorWidth<G>);
      const bool in_vectors = a.width % N == 0 && are_aligned(a.grad_y, a.gradient);
      return in_vectors ? sum_runs<T, G, N>(a, sorted, stream) : sum_runs<T, G, 1>(a, sorted, stream);
    });
  });
}

}  // namespace strata::kernels
