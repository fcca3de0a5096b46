// SPDX-License-Identifier: MIT
#include "tests/kernels/mutants/case_verdict.h"

#include <fstream>
#include <map>
#include <sstream>

#include "kernels/op_proofs.h"

namespace strata::kernels {

const std::string& definition_in(std::string_view file) {
  static std::map<std::string, std::string, std::less<>> texts;
  std::string& text = texts[std::string(file)];
  if (text.empty()) {
    std::ostringstream all;
    all << std::ifstream("kernels/" + std::string(file) + ".py").rdbuf();
    text = all.str();
  }
  return text;
}

int bits_of_16(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 8 : 11; }

CaseVerdict::CaseVerdict(const OpCase& op_case, at::ScalarType dtype)
    : in_dtype(evaluate(op_case, Level::torchscript, {.dtype = dtype})) {
  const auto exact = evaluate(rounded(op_case, dtype), Level::torchscript, {.variances_of = dtype});
  for (size_t i = 0; i < in_dtype.size(); ++i) {
    comparisons.emplace_back(Expected{exact.at(i).value, in_dtype[i].value, exact.at(i).variance},
                             bounds_of(in_dtype[i], tolerance_of(op_case.op())));
  }
}

std::string CaseVerdict::refusal(const OpCase& op_case, const std::vector<Tensor>& values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    const Agreement found = comparisons.at(i).agreement(values[i]);
    if (!found.agreed()) return op_case.name + ", " + in_dtype.at(i).name + ": " + found.words;
  }
  return "";
}

std::vector<Tensor> rounded_once(const OpCase& op_case, at::ScalarType dtype, const std::vector<Value>& like) {
  std::vector<Tensor> values;
  for (const Value& value : evaluate(rounded(op_case, dtype), Level::torchscript, {.dtype = at::kFloat})) {
    values.push_back(value.value.to(like.at(values.size()).dtype).to(at::kDouble));
  }
  return values;
}

}  // namespace strata::kernels
