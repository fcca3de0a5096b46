// SPDX-License-Identifier: MIT
// CaseCheck: compares what levels compute for a case, run in the ways below, with the formula in fp64.
//
// The formula is <op>.py at level torchscript on the CPU, differentiated by autograd. <op>_test.cc checks it against
// plain loops.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/proof/agreement.h"
#include "kernels/proof/evaluation.h"
#include "kernels/proof/op_case.h"

namespace strata::kernels {

// The ways in which a case is run. Each has one setting or several.
enum class Way {
  plain,
  strided,       // on strided inputs
  unaligned,     // on unaligned inputs
  nan_filled,    // while new tensors hold NaN: a number that is not written may hold the right value of an earlier call
  no_gradients,  // as without training
  one_gradient,
  one_output,  // only one output has a gradient
  destinations,
  added_gradients,  // of weights, added to a buffer in fp32: a part of destinations
};

inline constexpr Way kWays[] = {Way::plain,        Way::strided,      Way::unaligned,  Way::nan_filled,
                                Way::no_gradients, Way::one_gradient, Way::one_output, Way::destinations};

// A large case is run in fewer ways.
inline constexpr Way kWaysOfLargeCases[] = {Way::plain, Way::added_gradients};

// How to run a case, and the words for it in messages, such as "only the gradient of leaf 1".
struct NamedSetting {
  std::string name;
  Setting setting;
};

// Returns no setting if the case has no such way: a single output has no others.
std::vector<NamedSetting> settings_of(Way way, const OpCase& op_case);

// In its scope, new tensors are filled with NaN if `way` asks for it, and operators that have no deterministic
// algorithm warn.
class WayScope {
 public:
  explicit WayScope(Way way);
  ~WayScope();
  WayScope(const WayScope&) = delete;
  WayScope& operator=(const WayScope&) = delete;

 private:
  const bool is_filled_;
};

class CaseCheck {
 public:
  // Both must live as long as the check.
  CaseCheck(const OpCase& op_case, const Tolerance& tolerance, at::ScalarType dtype)
      : case_(op_case), tolerance_(tolerance), dtype_(dtype) {}

  // Compares the values that evaluate() returned for the case at `level` in this dtype. `chunks` is the number of parts
  // of the rows that the op computes one after another: gradients of weights are their sums, and each sum is rounded.
  std::vector<Deviation> deviations(const std::vector<Value>& values, Level level, const Setting& setting,
                                    double chunks = 1);

  // Returns the type of a result of the formula in this dtype.
  at::ScalarType type_of_output(size_t output) { return formula({}).rounded.at(output).dtype; }

  // Frees what was kept to compare gradients in buffers with, which is large.
  void forget_buffers() { buffers_.clear(); }

 private:
  // The number of a value, and what differs in the bounds of a level.
  using Key = std::tuple<size_t, at::ScalarType, double, double>;
  using BufferKey = std::tuple<Key, std::optional<size_t>, at::ScalarType, bool>;

  struct Formula {
    std::vector<Value> exact, rounded;  // in fp64, and in the dtype
    std::map<Key, Comparison> comparisons = {};
  };

  // Returns the values of the formula on the same rounded inputs. All layouts share them. A gradient that is computed
  // alone is that of all together.
  Formula& formula(const Setting& setting);
  const Comparison& comparison(Formula& formula, size_t place, const Bounds& bounds);
  const Comparison& comparison_in_buffer(const Formula& formula, size_t place, const Bounds& bounds,
                                         const Setting& setting);

  const OpCase& case_;
  const Tolerance& tolerance_;
  const at::ScalarType dtype_;
  std::map<std::optional<size_t>, Formula> formulas_;  // by Setting::only_output
  std::map<BufferKey, Comparison> buffers_;
};

}  // namespace strata::kernels
