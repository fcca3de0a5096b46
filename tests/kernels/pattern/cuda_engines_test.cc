// SPDX-License-Identifier: MIT
// Level cuda of attention gives each call to an engine that takes it.
#include "kernels/attention/cuda_engines.h"

#include <gtest/gtest.h>

#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::kernels {
namespace {

TEST(CudaEngines, TakeTheCallsThatTheyGet) {
  for (const char* text : {"full", "causal", "causal & window(9)", "window(5000)", "causal & documents",
                           "causal | prefix(9)", "dilated(9, 2)", "window(9) | global(1)", "documents | window(3)"}) {
    const Pattern pattern = parse_pattern(text);
    for (const int64_t width : {64, 96, 128}) {
      for (const ScoreTerms& terms :
           {ScoreTerms{}, ScoreTerms{.sinks = true}, ScoreTerms{.softcap = 9}, ScoreTerms{.alibi = true}}) {
        for (const bool is_part : {false, true}) {
          const CudaCall call = {pattern, terms, width, is_part};
          const bool by_cudnn = why_not_cudnn(call).empty(), by_wgmma = why_not_wgmma(call).empty();
          const CudaEngine engine = cuda_engine(call, /*on_hopper=*/true);
          EXPECT_TRUE((engine == CudaEngine::cudnn ? by_cudnn : by_wgmma) || !(by_cudnn || by_wgmma)) << text;
          EXPECT_EQ(cuda_engine(call, /*on_hopper=*/false), CudaEngine::cudnn);
        }
      }
    }
  }
}

TEST(CudaEngines, AreChosenByTheWindow) {
  const Pattern narrow = parse_pattern("causal & window(256)"), wide = parse_pattern("causal & window(1024)");
  const Pattern causal = parse_pattern("causal");
  EXPECT_EQ(cuda_engine({.pattern = narrow, .head_width = 64}, true), CudaEngine::wgmma);
  EXPECT_EQ(cuda_engine({.pattern = wide, .head_width = 128}, true), CudaEngine::wgmma);
  EXPECT_EQ(cuda_engine({.pattern = causal, .head_width = 128}, true), CudaEngine::cudnn);
  EXPECT_EQ(cuda_engine({.pattern = narrow, .head_width = 256}, true), CudaEngine::cudnn);
}

}  // namespace
}  // namespace strata::kernels
