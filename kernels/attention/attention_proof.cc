// SPDX-License-Identifier: MIT
#include "kernels/attention/attention_proof.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_pieces.h"
#include "kernels/attention/attention_variances.h"
#include "kernels/attention/device_constants.h"
#include "kernels/attention/pattern/pair_counter.h"
#include "kernels/attention/pattern/parse_pattern.h"
#include "kernels/proof/op_proof.h"
#include "kernels/proof/random_inputs.h"

namespace strata::kernels {
namespace {

// y is a product of probabilities that are rounded to 16 bits. Its factor is too small for the product of error and y
// in rows of few keys: attention_variances() has what these need, and what the backward stores in 16 bits before the
// gradients. The factor of gradients is for levels that round the gradients of shared keys for each query head, and
// then add them, and for level cuda, which rounds two sums of a prefix.
std::vector<double> factors_of(const AttentionShape& s) {
  std::vector<double> factors = {1.5, 2};
  if (s.queries > 0) factors.push_back(2);
  if (s.terms.sinks) factors.push_back(2);
  return factors;
}

// qkv, or if queries are a part of a row, these and the keys and values. Then sinks, if there are any.
Leaves leaves_of(const AttentionShape& s, const at::TensorOptions& options = at::kDouble) {
  const int64_t query_columns = s.heads * s.head_width, key_columns = 2 * s.key_value_heads * s.head_width;
  Leaves leaves;
  if (s.queries > 0) {
    leaves = {random({s.batch, s.queries, query_columns}, options),
              random({s.batch, s.positions, key_columns}, options)};
  } else {
    leaves = {random({s.batch, s.positions, query_columns + key_columns}, options)};
  }
  if (s.terms.sinks) leaves.push_back(random({s.heads}, options));
  return leaves;
}

// The arguments of the op beside its first leaf.
AttentionOp::Arguments arguments_of(const AttentionShape& s, const Tensor& document_offsets, const Leaves& leaves) {
  const auto& [alibi, softcap, sinks] = s.terms;
  const KeysOfRows keys = s.queries > 0 ? KeysOfRows{leaves[1], s.first_query} : KeysOfRows{};
  return {s.heads,
          s.key_value_heads,
          {s.pattern, document_offsets},
          {alibi, softcap, sinks ? leaves.back() : Tensor()},
          keys};
}

Leaves run_attention(const Leaves& leaves, const AttentionOp::Arguments& arguments, Level level) {
  const auto& [heads, key_value_heads, mask, terms, keys] = arguments;
  if (!keys.key_value.defined()) return {attention(leaves[0], heads, key_value_heads, mask, terms, level)};
  return {attention_of_part(leaves[0], keys, heads, key_value_heads, mask, terms, level)};
}

// Returns the variances of y and of the gradients of all leaves.
template <class Arguments>
Variances variances_with(const Arguments& arguments) {
  return [arguments](const Leaves& leaves, const Leaves& gradients, at::ScalarType dtype, int64_t elements) {
    const double roundoff = unit_roundoff(dtype);
    const AttentionVariances of = attention_variances(leaves[0], arguments(leaves), gradients[0], roundoff, elements);
    std::vector<Variance> result = {{.product_variance = of.product_variance, .square_variance = of.square_variance}};
    for (const Tensor& variance : of.gradient_variances) result.push_back({.element_variance = variance});
    return result;
  };
}

}  // namespace

OpCase attention_case(const std::string& name, const AttentionShape& s, const Tensor& document_offsets) {
  const auto arguments = [s, document_offsets](const Leaves& leaves) {
    const Tensor& given = document_offsets;
    return arguments_of(s, given.defined() ? copied_to(leaves[0].device(), given) : given, leaves);
  };
  OpCase result{
      s, name, leaves_of(s), s.terms.sinks ? size_t{1} : size_t{0},
      [arguments](const Leaves& leaves, Level level) { return run_attention(leaves, arguments(leaves), level); }};
  result.row_width = s.head_width;
  result.factors = factors_of(s);
  result.variances = variances_with(arguments);
  // Where a query sees one key, its gradient is the difference of equal numbers. In whole rows the gradients of values
  // are in the same tensor, and are as large as those of y. Queries that are a part have a tensor of their own.
  if (s.queries > 0) {
    result.operands.assign(1 + result.leaves.size(), 0.0);
    result.operands[1] = 1;
  }
  return result;
}

namespace {

// `sizes` are explained at head_sizes().
AttentionShape shape_of(const Sizes& sizes, const Pattern& pattern, const ScoreTerms& terms = {}) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], pattern, /*deterministic=*/false, terms};
}

AttentionShape with_documents(const Sizes& sizes, int64_t documents) {
  AttentionShape s = shape_of(sizes, parse_pattern("causal & documents"));
  s.documents = documents;
  return s;
}

OpCase attention_case(const std::string& name, const Sizes& sizes, const std::string& pattern,
                      const Tensor& document_offsets = {}, const ScoreTerms& terms = {}) {
  return attention_case(name, shape_of(sizes, parse_pattern(pattern), terms), document_offsets);
}

Tensor offsets(std::vector<int32_t> values) {
  return at::empty({static_cast<int64_t>(values.size())}, at::kInt)
      .copy_(at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kInt));
}

// The documents of the rows of qkv. They are made once for each shape, so that a benchmark does not time them.
Tensor growing_documents(const AttentionShape& s, const Tensor& qkv) {
  const int64_t rows = qkv.size(0);
  const std::string name = "documents of " + sizes_text({rows, s.positions, s.documents});
  return device_constants(name, qkv.device(), [&] {
    std::vector<int32_t> offsets = {0};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t document = 1; document <= s.documents; ++document) {
        const int64_t end = begin_of_document(s.positions, s.documents, document);
        offsets.push_back(static_cast<int32_t>(row * s.positions + end));
      }
    }
    return offsets;
  });
}

constexpr ScoreTerms kAllTerms = {.alibi = true, .softcap = 2, .sinks = true};

// Scores of random queries and keys are around 1, so a softcap of 2 changes most of them.
std::vector<OpCase> cases_with_terms() {
  constexpr ScoreTerms kAlibi = {.alibi = true}, kSoftcap = {.softcap = 2}, kSinks = {.sinks = true};
  std::vector<OpCase> cases;
  const auto add = [&](const std::string& name, const Sizes& sizes, const std::string& pattern,
                       const ScoreTerms& terms = kAllTerms, const Tensor& document_offsets = {}) {
    cases.push_back(
        attention_case("attention_" + name + "_" + sizes_text(sizes), sizes, pattern, document_offsets, terms));
  };
  for (const Sizes& sizes : head_sizes()) add("all_terms_causal", sizes, "causal");
  for (const auto& [name, terms] : {std::pair{"alibi", kAlibi}, {"softcap", kSoftcap}, {"sinks", kSinks}}) {
    add(name + std::string("_causal"), {2, 150, 6, 3, 64}, "causal", terms);
    add(name + std::string("_full"), {1, 70, 6, 2, 16}, "full", terms);
  }
  add("large_softcap_causal", {1, 70, 2, 2, 16}, "causal", {.softcap = 50});
  // cuDNN computes these in different ways: softcaps hide pairs themselves, and documents have lengths. Five documents
  // are eight for cuDNN, of which three are empty.
  add("softcap_two_sided", {2, 150, 4, 2, 64}, "window(30)", kSoftcap);
  add("softcap_sinks_window", {2, 150, 4, 2, 64}, "causal & window(30)", {.softcap = 2, .sinks = true});
  add("alibi_sinks_window", {2, 150, 4, 2, 64}, "causal & window(30)", {.alibi = true, .sinks = true});
  for (const auto& [name, terms] : {std::pair{"alibi", kAlibi}, {"softcap", kSoftcap}}) {
    add(name + std::string("_documents"), {2, 96, 4, 2, 64}, "causal & documents", terms,
        offsets({0, 5, 96, 160, 170, 192}));
    add(name + std::string("_causal"), {2, 1, 4, 2, 64}, "causal", terms);
  }
  add("alibi_softcap_window", {2, 150, 4, 2, 64}, "window(30)", {.alibi = true, .softcap = 2});
  add("all_terms_window", {2, 150, 12, 4, 64}, "causal & window(30)");
  add("all_terms_documents", {2, 96, 6, 2, 64}, "causal & documents", kAllTerms, offsets({0, 5, 96, 160, 192}));
  add("all_terms_documents_window", {2, 96, 3, 1, 128}, "causal & window(9) & documents", kAllTerms,
      offsets({0, 5, 96, 160, 192}));
  add("all_terms_prefix", {1, 150, 2, 1, 128}, "causal | prefix(70)");
  add("softcap_prefix", {2, 150, 4, 2, 64}, "causal | prefix(70)", kSoftcap);
  add("sinks_prefix", {1, 150, 2, 1, 64}, "causal | prefix(33)", kSinks);
  add("softcap_sinks_prefix", {1, 90, 2, 1, 64}, "causal | prefix(41)", {.softcap = 2, .sinks = true});
  add("all_terms_residues", {2, 150, 4, 2, 64}, "causal & dilated(9, 3)");
  add("all_terms_blocks", {1, 200, 2, 2, 256}, "blocks(0.5, 7) | window(4)");
  add("all_terms_causal", {1, 200, 4, 2, 96}, "causal");
  add("sinks_blocks", {2, 150, 4, 2, 128}, "causal & blocks(0.5, 7)", kSinks);
  // From the eighth on, queries see nothing but the sink.
  add("sinks_alone", {1, 70, 2, 1, 64}, "window(4) & prefix(4)", kSinks);
  return cases;
}

// Queries at the start, in the middle and at the end of a row, in whole and in cut tiles.
std::vector<OpCase> cases_of_parts() {
  std::vector<OpCase> cases;
  const auto add = [&](const std::string& name, const Sizes& sizes, int64_t first, int64_t queries,
                       const std::string& pattern, const ScoreTerms& terms = {}, const Tensor& document_offsets = {}) {
    AttentionShape s = shape_of(sizes, parse_pattern(pattern), terms);
    s.first_query = first;
    s.queries = queries;
    cases.push_back(attention_case("attention_part_" + name + "_" + std::to_string(first) + "_of_" + sizes_text(sizes),
                                   s, document_offsets));
  };
  for (const auto& [first, queries] : {std::pair{0, 40}, {64, 64}, {77, 30}, {140, 60}}) {
    add("causal", {2, 200, 4, 2, 64}, first, queries, "causal");
  }
  add("full", {1, 70, 4, 4, 32}, 11, 20, "full");
  add("causal", {1, 150, 2, 1, 128}, 100, 50, "causal");
  add("causal", {1, 150, 2, 2, 256}, 64, 40, "causal");
  add("causal", {2, 33, 6, 2, 10}, 13, 7, "causal");
  add("window", {2, 200, 4, 2, 64}, 128, 64, "causal & window(30)");
  add("two_sided", {1, 200, 4, 2, 64}, 70, 64, "window(30)");
  add("dilated", {2, 150, 4, 2, 64}, 60, 60, "causal & dilated(9, 3)");
  add("prefix", {1, 150, 2, 1, 128}, 30, 64, "causal | prefix(70)");
  // Queries before the end of a prefix, after it, and on both sides with one query after it.
  for (const auto& [first, queries] : {std::pair{10, 30}, {77, 50}, {40, 38}}) {
    add("prefix", {2, 200, 4, 2, 64}, first, queries, "causal | prefix(77)");
  }
  add("sinks_prefix", {1, 150, 2, 1, 64}, 30, 64, "causal | prefix(71)", {.sinks = true});
  add("global", {2, 150, 4, 2, 64}, 65, 50, "causal & (window(30) | global(5))");
  add("blocks", {1, 200, 2, 2, 64}, 70, 90, "blocks(0.5, 7) | window(4)");
  add("blocks", {1, 200, 4, 2, 128}, 70, 90, "causal & blocks(0.5, 7)");
  add("documents", {2, 96, 6, 2, 64}, 24, 48, "causal & documents", {}, offsets({0, 5, 96, 160, 192}));
  add("documents", {2, 200, 2, 1, 128}, 100, 70, "causal & documents", {}, offsets({0, 120, 200, 330, 400}));
  add("documents_program", {2, 96, 6, 2, 64}, 50, 40, "causal & (documents & window(9) | global(2))", {},
      offsets({0, 5, 96, 160, 192}));
  add("alibi", {2, 150, 4, 2, 64}, 70, 64, "causal", {.alibi = true});
  add("softcap", {2, 150, 4, 2, 64}, 70, 64, "causal & window(30)", {.softcap = 2});
  add("sinks", {2, 150, 4, 2, 64}, 70, 64, "causal", {.sinks = true});
  add("all_terms", {2, 150, 6, 2, 64}, 70, 64, "causal", kAllTerms);
  add("all_terms", {1, 90, 4, 2, 10}, 31, 44, "causal & window(20)", kAllTerms);
  return cases;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> cases;
  for (const Sizes& sizes : head_sizes()) {
    for (const std::string pattern : {"full", "causal"}) {
      cases.push_back(attention_case("attention_" + pattern + "_" + sizes_text(sizes), sizes, pattern));
    }
  }
  // All widths but 10 are those that cuDNN takes. There are full and partial tiles, and sequences of one document or
  // many.
  cases.push_back(attention_case("attention_causal_2x128x4x2x64", {2, 128, 4, 2, 64}, "causal"));
  cases.push_back(attention_case("attention_full_1x200x2x2x128", {1, 200, 2, 2, 128}, "full"));
  cases.push_back(attention_case("attention_causal_1x150x2x1x192", {1, 150, 2, 1, 192}, "causal"));
  cases.push_back(attention_case("attention_full_1x70x2x2x256", {1, 70, 2, 2, 256}, "full"));
  cases.push_back(attention_case("attention_causal_2x1x4x2x8", {2, 1, 4, 2, 8}, "causal"));
  cases.push_back(attention_case("attention_window_2x150x4x2x32", {2, 150, 4, 2, 32}, "causal & window(20)"));
  cases.push_back(attention_case("attention_window_1x7x2x1x10", {1, 7, 2, 1, 10}, "causal & window(1)"));
  cases.push_back(attention_case("attention_documents_full_2x70x4x2x16", {2, 70, 4, 2, 16}, "documents",
                                 offsets({0, 30, 70, 71, 71, 140})));
  cases.push_back(attention_case("attention_documents_causal_1x260x4x4x64", {1, 260, 4, 4, 64}, "causal & documents",
                                 offsets({0, 130, 131, 260})));
  cases.push_back(attention_case("attention_documents_window_2x96x6x2x64", {2, 96, 6, 2, 64},
                                 "causal & window(9) & documents", offsets({0, 5, 96, 160, 192})));
  cases.push_back(attention_case("attention_two_sided_2x150x4x2x64", {2, 150, 4, 2, 64}, "window(30)"));
  cases.push_back(attention_case("attention_two_sided_1x128x2x2x128", {1, 128, 2, 2, 128}, "window(1)"));
  cases.push_back(attention_case("attention_documents_two_sided_2x96x6x2x64", {2, 96, 6, 2, 64},
                                 "window(9) & documents", offsets({0, 5, 96, 160, 192})));
  // Prefixes that end at, just before, just after and far after the last position, and within the row.
  for (const int64_t prefix : {1, 2, 3, 17, 39, 40, 100}) {
    cases.push_back(attention_case("attention_prefix_" + std::to_string(prefix) + "_1x40x2x1x64", {1, 40, 2, 1, 64},
                                   "causal | prefix(" + std::to_string(prefix) + ")"));
  }
  cases.push_back(attention_case("attention_prefix_1x192x2x1x64", {1, 192, 2, 1, 64}, "causal | prefix(64)"));
  cases.push_back(attention_case("attention_prefix_2x150x4x2x64", {2, 150, 4, 2, 64}, "causal | prefix(77)"));
  cases.push_back(attention_case("attention_prefix_2x150x4x2x16", {2, 150, 4, 2, 16}, "causal | prefix(20)"));
  cases.push_back(attention_case("attention_prefix_1x150x2x1x96", {1, 150, 2, 1, 96}, "prefix(70) | causal"));
  cases.push_back(attention_case("attention_prefix_1x150x2x1x192", {1, 150, 2, 1, 192}, "causal | prefix(70)"));
  cases.push_back(attention_case("attention_prefix_1x70x2x2x256", {1, 70, 2, 2, 256}, "causal | prefix(30)"));
  // Patterns that level cuda does not have.
  for (const auto& [name, pattern] : {std::pair{"dilated", "causal & dilated(9, 7)"},
                                      {"prefix_window", "causal & window(30) | prefix(20)"},
                                      {"global", "causal & (window(10) | global(3))"},
                                      {"blocks", "blocks(0.5, 7) & dilated(100, 1)"}}) {
    cases.push_back(attention_case(std::string("attention_") + name + "_2x150x4x2x16", {2, 150, 4, 2, 16}, pattern));
  }
  cases.push_back(attention_case("attention_documents_global_2x96x6x2x64", {2, 96, 6, 2, 64},
                                 "causal & (documents & window(9) | global(2))", offsets({0, 5, 96, 160, 192})));
  // Each width that level triton has kernels for, with full and partial tiles, and what a partial tile may evaluate.
  cases.push_back(attention_case("attention_causal_1x200x4x2x96", {1, 200, 4, 2, 96}, "causal"));
  cases.push_back(attention_case("attention_prefix_1x150x2x1x128", {1, 150, 2, 1, 128}, "causal | prefix(70)"));
  cases.push_back(
      attention_case("attention_global_2x150x4x2x64", {2, 150, 4, 2, 64}, "causal & (window(30) | global(5))"));
  cases.push_back(attention_case("attention_residues_2x150x4x2x64", {2, 150, 4, 2, 64}, "causal & dilated(9, 3)"));
  cases.push_back(attention_case("attention_blocks_1x200x2x2x256", {1, 200, 2, 2, 256}, "blocks(0.5, 7) | window(4)"));
  // Two heads of a group share a tile, if their number is even.
  for (const Sizes& sizes : {Sizes{2, 200, 4, 2, 128}, {1, 150, 8, 2, 96}, {1, 330, 3, 1, 128}, {2, 70, 4, 1, 100}}) {
    cases.push_back(attention_case("attention_blocks_" + sizes_text(sizes), sizes, "blocks(0.5, 7)"));
  }
  cases.push_back(attention_case("attention_documents_causal_2x200x2x1x128", {2, 200, 2, 1, 128}, "causal & documents",
                                 offsets({0, 100, 200, 330, 400})));
  for (OpCase& with_terms : cases_with_terms()) cases.push_back(std::move(with_terms));
  for (OpCase& part_case : cases_of_parts()) cases.push_back(std::move(part_case));
  return cases;
}

// Parts are sequences. In a long one the scores, positions^2 per head, are larger than the inputs, and are computed for
// some queries at a time.
Workload workload(const OpShape& shape, const at::TensorOptions& options) {
  const AttentionShape& s = *shape.as<AttentionShape>();
  const int64_t packed = (s.heads + 2 * s.key_value_heads) * s.head_width;
  Workload w{shape};
  w.row_elements = std::max(s.positions * packed, s.query_count() * s.positions * s.heads);
  w.row_width = s.head_width;
  if (s.queries > 0) w.split_leaves = 2;
  w.factors = factors_of(s);
  w.deterministic = s.deterministic;
  w.inputs.leaves = leaves_of(s, options);
  const auto arguments = [s](const Leaves& leaves) {
    const Tensor qkv = leaves[0].detach();
    if (!has_word(s.pattern, Pattern::Kind::documents)) return arguments_of(s, {}, leaves);
    return arguments_of(s, growing_documents(s, qkv), leaves);
  };
  w.run = [arguments](const Inputs& in, Level level) { return run_attention(in.leaves, arguments(in.leaves), level); };
  w.formula = [arguments](const Inputs& in, const Leaves& gradients, int64_t elements) {
    return attention_in_pieces(in.leaves[0], arguments(in.leaves), gradients[0], elements);
  };
  w.variances = variances_with(arguments);
  return w;
}

}  // namespace

OpProof attention_proof() {
  const Pattern causal = parse_pattern("causal");
  AttentionShape part_shape = shape_of({3, 12, 4, 2, 8}, causal);
  part_shape.first_query = 3;
  part_shape.queries = 6;
  OpProof proof = {
      .tolerances = {{"attention"}},
      .cases = cases,
      .workload = workload,
      .small_shapes =
          {AttentionShape{
               .batch = 3, .positions = 12, .heads = 4, .key_value_heads = 2, .head_width = 8, .deterministic = true},
           shape_of({3, 12, 4, 2, 8}, within_documents(causal)), with_documents({3, 12, 4, 2, 8}, 3),
           shape_of({3, 12, 4, 2, 8}, causal, kAllTerms), part_shape},
      .gpu_shapes = {},
      .cpu_shapes = {shape_of({2, 256, 8, 8, 64}, causal), with_documents({2, 256, 8, 8, 64}, 8)},
      .deterministic_if_asked = true,  // in the backward
      .named_shapes = {{"small", shape_of({2, 512, 8, 8, 64}, causal)},
                       {"realistic", shape_of({8, 2048, 32, 32, 128}, causal)}},
  };
  for (AttentionShape shape : {shape_of({64, 1024, 12, 12, 64}, causal), shape_of({8, 4096, 32, 8, 64}, causal),
                               shape_of({2, 8192, 32, 8, 128}, causal)}) {
    proof.gpu_shapes.push_back(shape);
    shape.deterministic = true;
    proof.gpu_shapes.push_back(shape);
  }
  for (const Sizes& sizes : {Sizes{8, 4096, 32, 8, 64}, {2, 8192, 32, 8, 128}}) {
    proof.gpu_shapes.push_back(shape_of(sizes, parse_pattern("causal | prefix(1024)")));
    proof.gpu_shapes.push_back(with_documents(sizes, 8));
    proof.gpu_shapes.push_back(shape_of(sizes, causal, {.alibi = true}));
    proof.gpu_shapes.push_back(shape_of(sizes, causal, {.softcap = 30}));
  }
  proof.gpu_shapes.push_back(with_documents({1, 32768, 32, 8, 128}, 8));  // most pairs are of two documents
  AttentionShape with_sinks = shape_of({8, 4096, 32, 8, 64}, causal, {.sinks = true});
  with_sinks.deterministic = true;
  proof.gpu_shapes.push_back(with_sinks);
  return proof;
}

}  // namespace strata::kernels
