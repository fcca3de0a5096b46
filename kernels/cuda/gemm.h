// SPDX-License-Identifier: MIT
// gemm: one matrix product by cuBLASLt or by our own kernel, with what is done to it before it is stored, on tensors as
// LibTorch holds them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace strata::kernels {

// gelu_tanh_gradient multiplies the product by the derivative of gelu_tanh at `pre_activation`.
enum class Epilogue { none, relu, gelu_tanh, gelu_tanh_gradient };

// out [M, N] = epilogue(a [M, K] b [K, N] + bias [N]), sums in fp32; with `add`, out += a b. Matrices are rows of
// neighboring elements at any distance, or the transposed view of such. `out` has the type of a and b, or fp32.
struct Gemm {
  at::Tensor a, b, out;
  at::Tensor bias = {};  // of gelu_tanh_gradient: where the sums of out over its rows go; undefined: none
  Epilogue epilogue = Epilogue::none;
  at::Tensor pre_activation = {};  // of out's strides; written by gelu_tanh, read by gelu_tanh_gradient
  bool add = false;
};

// The matrix itself where its rows can be read as they lie, otherwise a contiguous copy.
at::Tensor gemm_operand(const at::Tensor& matrix);

// Algorithms are chosen once for each kind of call (sizes, types, alignments, epilogue) and kept for the process, so
// that the same call gives the same bits. Eager calls time the candidates; inside of a CUDA graph's capture, where
// nothing can be timed, and under at::globalContext().deterministicAlgorithms(), where two processes must choose alike,
// it is the first one by rule. No algorithm adds partial sums in an order that may vary.
//
// False, and nothing was launched, when there is no algorithm for such a call. `op` is named in errors.
bool try_gemm(std::string_view op, const Gemm& gemm);

// The same; no algorithm is an error.
void gemm(std::string_view op, const Gemm& gemm);

}  // namespace strata::kernels
