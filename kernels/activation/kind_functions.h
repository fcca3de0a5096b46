// SPDX-License-Identifier: MIT
// KindFunctions: compiled functions of one direction of an op at level aot_inductor, one for each kind of activation
// that the op has.
#pragma once

#include <c10/util/Exception.h>

#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "kernels/activation/activation_kind.h"
#include "kernels/runtime/aot_inductor_runtime.h"

namespace strata::kernels {

class KindFunctions {
 public:
  // `functions` has the name of a function of <op>_programs.py for each kind.
  KindFunctions(std::string_view op, std::string_view formula,
                std::initializer_list<std::pair<Activation, std::string_view>> functions,
                AotWidths rule = AotWidths::rows)
      : op_(op) {
    for (const auto& [kind, function] : functions) functions_.try_emplace(kind, op, formula, function, rule);
  }

  const AotFunction& of(Activation kind) const {
    const auto found = functions_.find(kind);
    TORCH_INTERNAL_ASSERT(found != functions_.end(), op_, ": no packaged function of activation ", name(kind));
    return found->second;
  }

 private:
  const std::string_view op_;
  std::map<Activation, AotFunction> functions_;
};

}  // namespace strata::kernels
