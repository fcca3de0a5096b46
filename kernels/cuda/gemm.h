// SPDX-License-Identifier: MIT
// gemm: one matrix product of LibTorch tensors with an epilogue, by cuBLASLt or by the kernel of gelu_gemm.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/runtime/gradient_destination.h"

namespace strata::kernels {

// The function that is applied to the product before it is stored. relu keeps a NaN. Not every call supports it, and
// none with `add`.
enum class Epilogue { none, relu, gelu_tanh };

// out [M, N] = epilogue(a [M, K] b [K, N] + bias [N]) with sums in fp32; with `add`, out += a b. The elements of a row
// are adjacent and rows may be any distance apart; a and b may also be transposed views of such matrices. `out` has the
// type of a and b, or fp32.
// a and b may also be Float8_e4m3fn or Float8_e5m2, but not both e5m2. Then the rows of `a` and the columns of `b` have
// neighboring elements, K and N are multiples of 16, and `out` is bf16, fp16 or fp32. This needs a GPU of compute
// capability 8.9 or more.
struct Gemm {
  at::Tensor a, b, out = {};
  at::Tensor bias = {};  // [N]; undefined: none
  Epilogue epilogue = Epilogue::none;
  at::Tensor pre_activation = {};  // strides of out; written by gelu_tanh
  bool add = false;
  // At 16-byte boundaries, with operands of 8 bits: the product is multiplied by both before the bias is added. fp32:
  // both are [1], or on a Hopper GPU [M] and [N], a scale for each row of a and for each column of b. On
  // GPUs of compute capability 10.0 or more a scale for each block of the rows of a and of the columns of b, in the
  // tiles of scale_tiles.h: Float8_e8m0fnu for 32 elements of 8 bits, or Float8_e4m3fn for 16 of Float4_e2m1fn_x2,
  // where K counts pairs and the tensor scales multiply the product too. Products of blocks were compiled and never
  // run.
  at::Tensor a_scale = {}, b_scale = {};
  at::Tensor a_tensor_scale = {}, b_tensor_scale = {};  // fp32 [1], with Float4_e2m1fn_x2
  // With operands of 8 bits, tensor cores keep the whole sum, in 14 bits. Otherwise sums of 128 products are
  // added in fp32, which takes longer.
  bool fast_sums = false;
};

// Returns the matrix itself if a GEMM can read its strides, otherwise a contiguous copy.
at::Tensor gemm_operand(const at::Tensor& matrix);

// Launches the product. Returns false, and launches nothing, if no algorithm supports the call. Errors begin with `op`.
// An algorithm is chosen once for each kind of call (sizes, types, alignments, epilogue) and kept for the process, so
// that the same call gives the same bits. Eager calls time the candidates, so another process may choose another one.
// The candidates are those that cuBLASLt proposes and, for calls of 0.03 to 1 ms, also the tiles of gemm_tiles.h.
// The first candidate is taken without timing during a CUDA graph capture, where nothing can be timed, and under
// at::globalContext().deterministicAlgorithms(), where all processes must choose the same one. No algorithm adds
// partial sums in an order that may vary.
// Some algorithms round a product to 16 bits before they add the bias. They are found by a trial and left out, except
// during a capture, where no trial can run.
// The relu of some algorithms turns a NaN into 0. They are found when candidates are timed, so relu is supported only
// where a call of its kind was timed.
bool try_gemm(std::string_view op, const Gemm& gemm);

// Launches the product like try_gemm, and throws a c10::Error if no algorithm supports the call. A bias without an
// epilogue of cuBLASLt is the start of the sums instead, in fp32, so that a result is rounded once with it too.
void gemm(std::string_view op, const Gemm& gemm);

// Launches a product without `out`, which is the gradient of a weight [M, N]. It is written or added to its destination
// directly if that is contiguous and of `type` or fp32, otherwise to a new tensor of `type`. Returns the gradient for
// the op's backward to return to autograd: undefined if it has a destination.
at::Tensor gemm_gradient(std::string_view op, Gemm gemm, at::ScalarType type, const GradientDestination& where);

}  // namespace strata::kernels
