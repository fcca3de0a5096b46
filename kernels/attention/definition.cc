// SPDX-License-Identifier: MIT
#include "kernels/attention/definition.h"

#include <ATen/core/List.h>

#include "kernels/attention/attention_formula.h"
#include "kernels/attention/pattern/program.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/torchscript_runtime.h"

namespace strata::kernels {
namespace {

// The instructions of a pattern as three integers each; none for the full pattern.
c10::List<int64_t> integers_of(const Pattern& pattern) {
  const Program program = compile_program(pattern);
  c10::List<int64_t> integers;
  for (int32_t i = 0; i < program.length && pattern.kind != Pattern::Kind::full; ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int64_t number :
         {static_cast<int64_t>(instruction.operation), int64_t{instruction.first}, int64_t{instruction.second}}) {
      integers.push_back(number);
    }
  }
  return integers;
}

}  // namespace

Tensor attention_by_definition(const Tensor& qkv, const AttentionOp::Arguments& arguments, const HeadRange& part) {
  static const Formula formula(kFormula, "attention");
  const auto& [alibi, softcap, sinks] = arguments.terms;
  return formula(qkv, arguments.heads, arguments.key_value_heads, integers_of(arguments.mask.pattern),
                 arguments.mask.document_offsets, alibi, softcap, with_gradient_destination(sinks),
                 arguments.keys.key_value, arguments.keys.first_query, part.first_head, part.all_heads);
}

Tensor scores_by_definition(const Tensor& query, const Tensor& key, const AttentionOp::Arguments& arguments,
                            const HeadRange& part) {
  static const Formula formula(kFormula, "scores_of");
  return formula(query, key, integers_of(arguments.mask.pattern), arguments.mask.document_offsets,
                 arguments.terms.alibi, arguments.terms.softcap, arguments.keys.first_query, part.first_head,
                 part.all_heads);
}

}  // namespace strata::kernels
