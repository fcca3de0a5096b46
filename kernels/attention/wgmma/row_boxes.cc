// SPDX-License-Identifier: MIT
#include "kernels/attention/wgmma/row_boxes.h"

#include "kernels/cuda/tensor_map.h"

namespace strata::kernels {

cudaError_t describe_rows(CUtensorMap& map, CudaType type, const PackedRows& rows, int box_rows) {
  static const EncodeTensorMap encode = find_tensor_map_encoder();
  if (encode == nullptr) return cudaErrorNotSupported;
  const auto size = [](int64_t number) { return static_cast<cuuint64_t>(number); };
  const cuuint64_t sizes[4] = {size(rows.columns), size(rows.positions / rows.step), size(rows.step), size(rows.batch)};
  const cuuint64_t strides[3] = {size(rows.step * rows.distance * 2), size(rows.distance * 2),
                                 size(rows.positions * rows.distance * 2)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  const CUresult result =
      encode(&map, type == CudaType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
             const_cast<void*>(rows.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace strata::kernels
