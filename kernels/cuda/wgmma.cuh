// SPDX-License-Identifier: MIT
// Products of a warpgroup: d [64, N] += A [64, 16] B [16, N] of 16-bit matrices with fp32 sums. A is in shared memory
// or in registers, B in shared memory. hopper.cuh has the fences between products and other code.
//
// An operand in shared memory has rows of 128 bytes, which the copy engine swizzled. Elements of a row are adjacent
// along k (queries and keys in q k^T), or the operand is transposed and rows are adjacent along k (values in p v).
//
// Lane l of warp w of the warpgroup has of d, for each j < N / 8:
//   d[4 j], d[4 j + 1]      row 16 w + l / 4, columns 8 j + 2 (l % 4) and the next one
//   d[4 j + 2], d[4 j + 3]  the same columns, 8 rows below
// and of A in registers, with two elements in each register:
//   a[0], a[1]  row 16 w + l / 4 and 8 rows below, columns 2 (l % 4) and the next one
//   a[2], a[3]  the same rows, 8 columns behind
// So 16 columns of d, rounded to 16 bits, are A of another product.
#pragma once

#include "kernels/cuda/hopper.cuh"

namespace strata::kernels {

enum class OperandLayout { along_k, transposed };

// The descriptor of a transposed operand, whose boxes of 64 columns are `box_bytes` apart. 16 rows are 2048 bytes.
__device__ inline uint64_t transposed_descriptor(unsigned address, unsigned box_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | (uint64_t{box_bytes / 16} << 16) | ((address & 0x3ffff) / 16);
}

// Keeps the compiler from reusing the registers of A before this point.
template <int kCount>
__device__ inline void hold(unsigned (&words)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(words[i])::"memory");
}

// clang-format off
#define STRATA_LIST16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define STRATA_LIST32 STRATA_LIST16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define STRATA_LIST48 STRATA_LIST32 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define STRATA_LIST64 STRATA_LIST48 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define STRATA_LIST80 STRATA_LIST64 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define STRATA_LIST96 STRATA_LIST80 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define STRATA_LIST112 STRATA_LIST96 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define STRATA_LIST128 STRATA_LIST112 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define STRATA_LIST144 STRATA_LIST128 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define STRATA_LIST160 STRATA_LIST144 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define STRATA_LIST176 STRATA_LIST160 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define STRATA_LIST192 STRATA_LIST176 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define STRATA_LIST208 STRATA_LIST192 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define STRATA_LIST224 STRATA_LIST208 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define STRATA_LIST240 STRATA_LIST224 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define STRATA_LIST256 STRATA_LIST240 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define STRATA_SUMS8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define STRATA_SUMS16 STRATA_SUMS8(0)
#define STRATA_SUMS32 STRATA_SUMS16, STRATA_SUMS8(8)
#define STRATA_SUMS48 STRATA_SUMS32, STRATA_SUMS8(16)
#define STRATA_SUMS64 STRATA_SUMS48, STRATA_SUMS8(24)
#define STRATA_SUMS80 STRATA_SUMS64, STRATA_SUMS8(32)
#define STRATA_SUMS96 STRATA_SUMS80, STRATA_SUMS8(40)
#define STRATA_SUMS112 STRATA_SUMS96, STRATA_SUMS8(48)
#define STRATA_SUMS128 STRATA_SUMS112, STRATA_SUMS8(56)
#define STRATA_SUMS144 STRATA_SUMS128, STRATA_SUMS8(64)
#define STRATA_SUMS160 STRATA_SUMS144, STRATA_SUMS8(72)
#define STRATA_SUMS176 STRATA_SUMS160, STRATA_SUMS8(80)
#define STRATA_SUMS192 STRATA_SUMS176, STRATA_SUMS8(88)
#define STRATA_SUMS208 STRATA_SUMS192, STRATA_SUMS8(96)
#define STRATA_SUMS224 STRATA_SUMS208, STRATA_SUMS8(104)
#define STRATA_SUMS240 STRATA_SUMS224, STRATA_SUMS8(112)
#define STRATA_SUMS256 STRATA_SUMS240, STRATA_SUMS8(120)
// The operands p0 to p6 follow the sums: A, B, whether to add, and whether A and B are transposed.
#define STRATA_FROM_SHARED(n, type, p0, p1, p2, p3, p4) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p2 ", 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" STRATA_LIST##n "}, %" #p0 ", %" #p1 ", p, 1, 1, %" #p3 ", %" #p4 ";\n}" \
      : STRATA_SUMS##n : "l"(a), "l"(b), "r"(add), "n"(int(kA)), "n"(int(kB)))
#define STRATA_FROM_REGISTERS(n, type, p0, p1, p2, p3, p4, p5, p6) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p5 ", 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" STRATA_LIST##n "}, {%" #p0 ",%" #p1 ",%" #p2 ",%" #p3 "}, %" #p4 ", p, 1, 1, %" #p6 ";\n}" \
      : STRATA_SUMS##n : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add), "n"(int(kB)))
#define STRATA_PRODUCT(n, p0, p1, p2, p3, p4, p5, p6) \
template <class T, OperandLayout kA = OperandLayout::along_k, OperandLayout kB = OperandLayout::along_k> \
__device__ inline void multiply(float (&d)[n / 2], uint64_t a, uint64_t b, unsigned add) { \
  if constexpr (std::is_same_v<T, __nv_bfloat16>) { STRATA_FROM_SHARED(n, "bf16", p0, p1, p2, p3, p4); } \
  else { STRATA_FROM_SHARED(n, "f16", p0, p1, p2, p3, p4); } \
} \
template <class T, OperandLayout kB = OperandLayout::along_k> \
__device__ inline void multiply(float (&d)[n / 2], unsigned a0, unsigned a1, unsigned a2, unsigned a3, uint64_t b, unsigned add) { \
  if constexpr (std::is_same_v<T, __nv_bfloat16>) { STRATA_FROM_REGISTERS(n, "bf16", p0, p1, p2, p3, p4, p5, p6); } \
  else { STRATA_FROM_REGISTERS(n, "f16", p0, p1, p2, p3, p4, p5, p6); } \
}

// multiply<T, kA, kB>(d, a, b, add) with descriptors of A and B, and multiply<T, kB>(d, a0, a1, a2, a3, b, add) with A
// in registers: d += A B, or d = A B if `add` is 0. T is __nv_bfloat16 or __half, and d has N / 2 floats.
STRATA_PRODUCT(16, 8, 9, 10, 11, 12, 13, 14)
STRATA_PRODUCT(32, 16, 17, 18, 19, 20, 21, 22)
STRATA_PRODUCT(64, 32, 33, 34, 35, 36, 37, 38)
STRATA_PRODUCT(80, 40, 41, 42, 43, 44, 45, 46)
STRATA_PRODUCT(96, 48, 49, 50, 51, 52, 53, 54)
STRATA_PRODUCT(112, 56, 57, 58, 59, 60, 61, 62)
STRATA_PRODUCT(128, 64, 65, 66, 67, 68, 69, 70)
STRATA_PRODUCT(160, 80, 81, 82, 83, 84, 85, 86)
STRATA_PRODUCT(176, 88, 89, 90, 91, 92, 93, 94)
STRATA_PRODUCT(192, 96, 97, 98, 99, 100, 101, 102)
STRATA_PRODUCT(256, 128, 129, 130, 131, 132, 133, 134)
// clang-format on

#undef STRATA_PRODUCT
#undef STRATA_FROM_REGISTERS
#undef STRATA_FROM_SHARED
#undef STRATA_SUMS8
#undef STRATA_LIST16
#undef STRATA_SUMS16
#undef STRATA_LIST32
#undef STRATA_SUMS32
#undef STRATA_LIST48
#undef STRATA_SUMS48
#undef STRATA_LIST64
#undef STRATA_SUMS64
#undef STRATA_LIST80
#undef STRATA_SUMS80
#undef STRATA_LIST96
#undef STRATA_SUMS96
#undef STRATA_LIST112
#undef STRATA_SUMS112
#undef STRATA_LIST128
#undef STRATA_SUMS128
#undef STRATA_LIST144
#undef STRATA_SUMS144
#undef STRATA_LIST160
#undef STRATA_SUMS160
#undef STRATA_LIST176
#undef STRATA_SUMS176
#undef STRATA_LIST192
#undef STRATA_SUMS192
#undef STRATA_LIST208
#undef STRATA_SUMS208
#undef STRATA_LIST224
#undef STRATA_SUMS224
#undef STRATA_LIST240
#undef STRATA_SUMS240
#undef STRATA_LIST256
#undef STRATA_SUMS256

}  // namespace strata::kernels
