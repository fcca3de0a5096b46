// SPDX-License-Identifier: MIT
// embedding: the forward gathers rows. The backward sorts the positions by index (stable, so that equal indices keep
// their order), cuts the sorted positions into pieces of equal length, and sums each run of equal indices: a run within
// one piece is written at once, the others leave a partial sum per piece, which are added up in order.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/device_utils.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace strata::kernels {
namespace {

constexpr int kThreads = 128;
// Positions a piece: a token that fills the whole batch is still summed by as many blocks as there are pieces.
constexpr int kPiece = 32;

// blockIdx.x: a row of y; a thread moves words W of it.
template <class W>
__global__ void forward_kernel(W* y, const int64_t* indices, const W* weight, int64_t count, int64_t vocabulary,
                               int64_t words) {
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    const int64_t index = indices[row];
    if (index < 0 || index >= vocabulary) __trap();
    for (int64_t i = threadIdx.x; i < words; i += blockDim.x) y[row * words + i] = weight[index * words + i];
  }
}

__global__ void number_positions_kernel(int* positions, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) positions[i] = static_cast<int>(i);
}

template <class G>
__device__ void write(G* pointer, float value, bool add) {
  *pointer = from_float<G>(add ? to_float(*pointer) + value : value);
}

struct Sorted {
  const int64_t* indices;
  const int* positions;
  float* heads;  // [pieces, width]: sums of the run that came into a piece from the one before
  float* tails;  // [pieces, width]: sums of the run that begins in a piece and goes on in the next
};

// blockIdx.x: a piece; blockIdx.y and threads: columns.
template <class T, class G>
__global__ void __launch_bounds__(kThreads) pieces_kernel(const EmbeddingBackward a, const Sorted sorted) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= a.width) return;
  const int64_t piece = blockIdx.x, first = piece * kPiece;
  const int64_t last = first + kPiece < a.count ? first + kPiece : a.count;
  const bool comes_in = first > 0 && sorted.indices[first - 1] == sorted.indices[first];
  const bool goes_on = last < a.count && sorted.indices[last - 1] == sorted.indices[last];
  const T* grad_y = static_cast<const T*>(a.grad_y) + column;
  int64_t run = first;
  float sum = 0.0f;
  for (int64_t i = first; i < last; ++i) {
    sum += to_float(grad_y[sorted.positions[i] * a.width]);
    const bool ends = i + 1 == last || sorted.indices[i + 1] != sorted.indices[i];
    if (!ends) continue;
    const int64_t index = sorted.indices[i];
    if (index < 0 || index >= a.vocabulary) __trap();
    if (run == first && comes_in) {
      sorted.heads[piece * a.width + column] = sum;
    } else if (i + 1 == last && goes_on) {
      sorted.tails[piece * a.width + column] = sum;
    } else {
      write(static_cast<G*>(a.gradient) + index * a.width + column, sum, a.add);
    }
    run = i + 1;
    sum = 0.0f;
  }
}

// blockIdx.x: a piece in which a run begins that goes on; blockIdx.y and threads: columns. Adds up the run's pieces.
template <class G>
__global__ void __launch_bounds__(kThreads) runs_kernel(const EmbeddingBackward a, const Sorted sorted) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPiece, next = first + kPiece;
  if (column >= a.width || next >= a.count) return;
  const int64_t index = sorted.indices[next - 1];
  const bool comes_in = sorted.indices[first] == index && first > 0 && sorted.indices[first - 1] == index;
  if (comes_in || sorted.indices[next] != index) return;
  float sum = sorted.tails[blockIdx.x * a.width + column];
  for (int64_t i = next; i < a.count && sorted.indices[i] == index; i += kPiece) {
    sum += sorted.heads[i / kPiece * a.width + column];
  }
  write(static_cast<G*>(a.gradient) + index * a.width + column, sum, a.add);
}

// blockIdx.x: a row of weight. Zeros where nobody used it.
template <class G>
__global__ void __launch_bounds__(kThreads) unused_rows_kernel(const EmbeddingBackward a, const Sorted sorted) {
  for (int64_t index = blockIdx.x; index < a.vocabulary; index += gridDim.x) {
    int64_t low = 0, high = a.count;  // the first of the sorted positions whose index is not below this one
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (sorted.indices[middle] < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low < a.count && sorted.indices[low] == index) continue;
    G* gradient = static_cast<G*>(a.gradient) + index * a.width;
    for (int64_t column = threadIdx.x; column < a.width; column += kThreads) gradient[column] = from_float<G>(0.0f);
  }
}

int64_t aligned_up(int64_t bytes) { return ceil_divide<int64_t>(bytes, 256) * 256; }

// The parts of the workspace, one after another.
struct Workspace {
  int64_t sorted_indices, positions, sorted_positions, heads, tails, sort, total;
};

size_t sort_bytes(int64_t count) {
  size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const int64_t*>(nullptr), static_cast<int64_t*>(nullptr),
                                  static_cast<const int*>(nullptr), static_cast<int*>(nullptr), count);
  return bytes;
}

Workspace workspace_of(const EmbeddingBackward& a) {
  const int64_t sums = aligned_up(ceil_divide<int64_t>(a.count, kPiece) * a.width * sizeof(float));
  Workspace w = {};
  w.positions = w.sorted_indices + aligned_up(a.count * sizeof(int64_t));
  w.sorted_positions = w.positions + aligned_up(a.count * sizeof(int));
  w.heads = w.sorted_positions + aligned_up(a.count * sizeof(int));
  w.tails = w.heads + sums;
  w.sort = w.tails + sums;
  w.total = w.sort + aligned_up(sort_bytes(a.count));
  return w;
}

constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

template <class W>
cudaError_t gather(void* y, const int64_t* indices, const void* weight, int64_t count, int64_t vocabulary,
                   int64_t words, cudaStream_t stream) {
  const int threads = static_cast<int>(std::min<int64_t>(ceil_divide<int64_t>(words, kWarp) * kWarp, 256));
  forward_kernel<W><<<static_cast<unsigned>(std::min(count, kMaxBlocks)), threads, 0, stream>>>(
      static_cast<W*>(y), indices, static_cast<const W*>(weight), count, vocabulary, words);
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

int64_t embedding_backward_workspace(const EmbeddingBackward& arguments) { return workspace_of(arguments).total; }

cudaError_t launch_embedding_backward(const EmbeddingBackward& a, void* workspace, cudaStream_t stream) {
  if (a.width == 0 || a.vocabulary == 0) return cudaSuccess;
  const Workspace w = workspace_of(a);
  char* base = static_cast<char*>(workspace);
  auto* sorted_indices = reinterpret_cast<int64_t*>(base + w.sorted_indices);
  auto* sorted_positions = reinterpret_cast<int*>(base + w.sorted_positions);
  const Sorted sorted = {sorted_indices, sorted_positions, reinterpret_cast<float*>(base + w.heads),
                         reinterpret_cast<float*>(base + w.tails)};
  if (a.count > 0) {
    auto* positions = reinterpret_cast<int*>(base + w.positions);
    constexpr int kNumberThreads = 256;
    number_positions_kernel<<<static_cast<unsigned>(ceil_divide<int64_t>(a.count, kNumberThreads)), kNumberThreads, 0,
                              stream>>>(positions, a.count);
    size_t bytes = static_cast<size_t>(w.total - w.sort);
    // All 64 bits: an index beyond the vocabulary must be found, not sorted among the others.
    const cudaError_t status = cub::DeviceRadixSort::SortPairs(base + w.sort, bytes, a.indices, sorted_indices,
                                                               positions, sorted_positions, a.count, 0, 64, stream);
    if (status != cudaSuccess) return status;
  }
  return visit_type(a.gradient_type, [&]<class G>(G) {
    if (a.count > 0) {
      const dim3 blocks(static_cast<unsigned>(ceil_divide<int64_t>(a.count, kPiece)),
                        static_cast<unsigned>(ceil_divide<int64_t>(a.width, kThreads)));
      const cudaError_t status = visit_type(a.type, [&]<class T>(T) {
        pieces_kernel<T, G><<<blocks, kThreads, 0, stream>>>(a, sorted);
        return cudaGetLastError();
      });
      if (status != cudaSuccess) return status;
      runs_kernel<G><<<blocks, kThreads, 0, stream>>>(a, sorted);
    }
    if (!a.add) {
      const auto blocks = static_cast<unsigned>(std::min(a.vocabulary, kMaxBlocks));
      unused_rows_kernel<G><<<blocks, kThreads, 0, stream>>>(a, sorted);
    }
    return cudaGetLastError();
  });
}

}  // namespace strata::kernels
