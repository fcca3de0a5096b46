// SPDX-License-Identifier: MIT
// Checks the messages for every kind of bad value and key, word for word, with their places.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

class BadLineTest : public testing::TestWithParam<BadLine> {};

TEST_P(BadLineTest, IsReportedAlone) { expect_reported_at_once(GetParam()); }

const BadLine kBadLines[] = {
    // Keys.
    {"misspelt", 2, "stpes: 100", "run.yaml:2:1: stpes: unknown key; did you mean 'steps'?"},
    {"misspelt_inside", 7, "optimizer: {type: adamw, learning_rte: 1e-3}",
     "run.yaml:7:26: optimizer.learning_rte: unknown key; did you mean 'learning_rate'?"},
    {"wrong_case", 3, "Batch: 16", "run.yaml:3:1: Batch: unknown key; did you mean 'batch'?"},
    {"wrong_section", 1, "run: {folder: runs/test, ranks: 2, gradient_clip: 1}",
     "run.yaml:1:36: run.gradient_clip: unknown key; did you mean 'optimizer.gradient_clip'?"},
    {"unknown_section", 14, "wandb: {project: x}",
     "run.yaml:14:1: wandb: unknown key; expected one of: run, steps, batch, micro_batch, model, layers, data, "
     "optimizer, "
     "schedule, precision, sparsity, sharding, gradient_checkpointing, memory_budget, cuda_graph, kernels, checkpoint, "
     "evaluation, log, "
     "profile, fault"},
    {"include", 14, "include: other.yaml",
     "run.yaml:14:1: include: unknown key; expected one of: run, steps, batch, micro_batch, model, layers, data, "
     "optimizer, "
     "schedule, precision, sparsity, sharding, gradient_checkpointing, memory_budget, cuda_graph, kernels, checkpoint, "
     "evaluation, log, "
     "profile, fault"},
    {"duplicate", 14, "steps: 200", "run.yaml:14:1: steps: duplicate key; it stands already at run.yaml:2:1"},
    {"duplicate_inside", 8, "schedule: {type: cosine, warmup: 1, warmup: 2}",
     "run.yaml:8:37: schedule.warmup: duplicate key; it stands already at run.yaml:8:26"},
    {"merge_key", 14, "<<: {steps: 3}", "run.yaml:14:1: <<: merge keys are not supported; write the keys out"},
    {"list_as_key", 14, "[a, b]: 3", "run.yaml:14:1: expected a key, got a list of 2"},
    {"empty_key", 14, "~: 3", "run.yaml:14:1: expected a key, got nothing"},
    {"missing", 2, "", "run.yaml:1:1: steps: missing; expected an integer, at least 1, at most 1000000000000"},
    {"missing_section", 7, "", "run.yaml:1:1: optimizer: missing; expected a section (keys and values)"},
    {"missing_inside", 1, "run: {ranks: 2}", "run.yaml:1:1: run.folder: missing; expected text"},
    {"missing_type", 8, "schedule: {warmup: 10}",
     "run.yaml:8:1: schedule.type: missing; expected cosine, linear, wsd or constant"},
    {"key_of_another_type", 8, "schedule: {type: cosine, decay: 10}",
     "run.yaml:8:26: schedule.decay: unknown key here; it belongs to type: wsd"},
    {"key_of_several_other_types", 8, "schedule: {type: constant, final: 0}",
     "run.yaml:8:28: schedule.final: unknown key here; it belongs to type: cosine or type: linear or type: wsd"},
    // Types.
    {"text_for_integer", 2, "steps: many",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got 'many'"},
    {"real_for_integer", 3, "batch: 16.5",
     "run.yaml:3:8: batch: expected an integer, at least 1, at most 1000000000, got '16.5'"},
    {"quoted_integer", 3, "batch: \"16\"",
     "run.yaml:3:8: batch: expected an integer, at least 1, at most 1000000000, got the text \"16\"; leave the quotes "
     "out"},
    {"list_for_integer", 3, "batch: [16]",
     "run.yaml:3:8: batch: expected an integer, at least 1, at most 1000000000, got a list of 1"},
    {"section_for_integer", 3, "batch: {a: 1}",
     "run.yaml:3:8: batch: expected an integer, at least 1, at most 1000000000, got a section with 1 key"},
    {"integer_for_section", 8, "schedule: 3", "run.yaml:8:11: schedule: expected a section (keys and values), got '3'"},
    {"null", 3, "batch: null", "run.yaml:3:1: batch: expected an integer, at least 1, at most 1000000000, got nothing"},
    {"nothing", 3, "batch:", "run.yaml:3:1: batch: expected an integer, at least 1, at most 1000000000, got nothing"},
    {"empty_section", 12,
     "checkpoint:", "run.yaml:12:1: checkpoint: expected a section (keys and values), got nothing"},
    {"number_for_text", 1, "run: {folder: 17, ranks: 2}",
     "run.yaml:1:15: run.folder: expected text, got the number 17; if you mean text, quote it: \"17\""},
    {"truth_for_text", 1, "run: {folder: yes, ranks: 2}",
     "run.yaml:1:15: run.folder: expected text, got the truth value yes; if you mean text, quote it: \"yes\""},
    {"empty_text", 1, "run: {folder: \"\", ranks: 2}", "run.yaml:1:15: run.folder: expected text, got none"},
    {"control_character", 1, "run: {folder: \"runs\\n\", ranks: 2}",
     "run.yaml:1:15: run.folder: expected text on one line and without control characters"},
    {"not_a_truth_value", 1, "run: {folder: runs/test, ranks: 2, deterministic: ture}",
     "run.yaml:1:51: run.deterministic: expected true or false, got 'ture'; did you mean 'true'?"},
    {"number_for_truth", 1, "run: {folder: runs/test, ranks: 2, deterministic: 1}",
     "run.yaml:1:51: run.deterministic: expected true or false, got '1'"},
    {"unknown_word", 10, "sharding: {strategy: ful}",
     "run.yaml:10:22: sharding.strategy: expected none, full or hybrid, got 'ful'; did you mean 'full'?"},
    {"unknown_type", 8, "schedule: {type: consine, warmup: 10}",
     "run.yaml:8:18: schedule.type: expected cosine, linear, wsd or constant, got 'consine'; did you mean 'cosine'?"},
    {"short_list", 7, "optimizer: {type: adamw, learning_rate: 1e-3, betas: [0.9]}",
     "run.yaml:7:54: optimizer.betas: expected a list of 2, each a number, at least 0, below 1, got a list of 1"},
    {"number_for_list", 7, "optimizer: {type: adamw, learning_rate: 1e-3, betas: 0.9}",
     "run.yaml:7:54: optimizer.betas: expected a list of 2, each a number, at least 0, below 1, got '0.9'"},
    {"wrong_element", 7, "optimizer: {type: adamw, learning_rate: 1e-3, betas: [0.9, 1.0]}",
     "run.yaml:7:60: optimizer.betas.1: expected a number, at least 0, below 1, got '1.0'"},
    {"tag", 2, "steps: !!int 100",
     "run.yaml:2:8: expected a plain value, got the tag 'tag:yaml.org,2002:int'; leave tags out"},
    // Numbers.
    {"negative", 3, "batch: -16",
     "run.yaml:3:8: batch: expected an integer, at least 1, at most 1000000000, got '-16'"},
    {"zero", 2, "steps: 0", "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '0'"},
    {"above", 8, "schedule: {type: cosine, final: 1.5}",
     "run.yaml:8:33: schedule.final: expected a number, at least 0, at most 1, got '1.5'"},
    {"overflow", 2, "steps: 9223372036854775808",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '9223372036854775808'; it does "
     "not fit into 64 bits"},
    {"overflow_by_exponent", 2, "steps: 1e999999999999",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '1e999999999999'; its exponent "
     "is "
     "out of range"},
    {"overflow_real", 7, "optimizer: {type: adamw, learning_rate: 1e999}",
     "run.yaml:7:41: optimizer.learning_rate: expected a number, above 0, got '1e999'; it is too large or too small "
     "for "
     "a 64-bit number"},
    {"octal", 2, "steps: 0100",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '0100'; a leading zero can mean "
     "octal: write 100"},
    {"hexadecimal", 2, "steps: 0x64",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '0x64'"},
    {"not_a_number", 7, "optimizer: {type: adamw, learning_rate: .nan}",
     "run.yaml:7:41: optimizer.learning_rate: expected a number, above 0, got '.nan'"},
    {"plain_nan", 7, "optimizer: {type: adamw, learning_rate: nan}",
     "run.yaml:7:41: optimizer.learning_rate: expected a number, above 0, got 'nan'"},
    {"infinite", 7, "optimizer: {type: adamw, learning_rate: .inf}",
     "run.yaml:7:41: optimizer.learning_rate: expected a number, above 0, got '.inf'"},
    {"decimal_comma", 7, "optimizer: {type: adamw, learning_rate: '0,001'}",
     "run.yaml:7:41: optimizer.learning_rate: expected a number, above 0, got the text \"0,001\"; leave the quotes "
     "out"},
    {"loose_underscore", 2, "steps: 100_",
     "run.yaml:2:8: steps: expected an integer, at least 1, at most 1000000000000, got '100_'"},
    {"one_checkpoint", 12, "checkpoint: {keep: 1}",
     "run.yaml:12:20: checkpoint.keep: expected an integer, at least 2, at most 1000000000, got '1'"},
    {"no_dropout_left", 5, kLlamaModel + ", dropout: 1}",
     "run.yaml:5:134: model.dropout: expected a number, at least 0, below 1, got '1'"},
    // Ranges and layers.
    {"backward_range", 11, "kernels: {default: aten, layers: [{only: 3-1, linear: aten}]}",
     "run.yaml:11:42: kernels.layers.0.only: expected a number or a range such as 0-3 or 0-30 step 2, got '3-1', which "
     "is empty: its "
     "end is before its start"},
    {"no_range", 11, "kernels: {default: aten, layers: [{only: first, linear: aten}]}",
     "run.yaml:11:42: kernels.layers.0.only: expected a number or a range such as 0-3 or 0-30 step 2, got 'first'"},
    {"layers_of_no_list", 11, "kernels: {layers: {only: 1, linear: aten}}",
     "run.yaml:11:19: kernels.layers: expected a list of sections, got a section with 2 keys"},
    {"line_without_layers", 11, "kernels: {layers: [{linear: aten}]}",
     "run.yaml:11:20: kernels.layers.0.only: missing; expected a number or a range such as 0-3 or 0-30 step 2"},
    {"layer_past_the_model", 11, "kernels: {default: aten, layers: [{only: 2-4, linear: aten}]}",
     "run.yaml:11:36: kernels.layers.0.only: expected layers below model.layers 4, counted from 0, got 2-4"},
    {"unknown_op", 11, "kernels: {rms_nomr: aten}",
     "run.yaml:11:11: kernels.rms_nomr: unknown key; did you mean 'rms_norm'?"},
    {"unknown_level", 11, "kernels: {rms_norm: trtion}",
     "run.yaml:11:21: kernels.rms_norm: expected aten, torchscript, aot_inductor, triton or cuda, got 'trtion'; did "
     "you "
     "mean 'triton'?"},
    {"line_without_module", 11, "kernels: {modules: [{linear: aten}]}",
     "run.yaml:11:21: kernels.modules.0.only: missing; expected text"},
    {"plan_without_best", 11, "kernels: {default: aten, plan: plans/mine.yaml}",
     "run.yaml:11:26: kernels.plan: expected none: only default: best reads a plan"},
    {"code_of_90", 11, "kernels: {architecture: 90}", "run.yaml:11:11: kernels.architecture: expected 80, or nothing"},
    {"code_of_a_plan", 11, "kernels: {default: best, architecture: 80}",
     "run.yaml:11:26: kernels.architecture: expected nothing: default: best measures the code for the GPU"},
    {"checkpointed_layer_past_the_model", 14, "gradient_checkpointing: [0-1, 9]",
     "run.yaml:14:31: gradient_checkpointing.1: expected layers below model.layers 4, counted from 0, got 9"},
    {"unknown_checkpointing", 14, "gradient_checkpointing: ful",
     "run.yaml:14:25: gradient_checkpointing: expected none, selective or full, got 'ful'; did you mean 'full'?"},
    {"precision_of_a_layer_past_the_model", 9, "precision: {layers: [{only: 2-4, compute: bfloat16}]}",
     "run.yaml:9:23: precision.layers.0.only: expected layers below model.layers 4, counted from 0, got 2-4"},
    {"precision_of_layers_misspelt", 9, "precision: {layers: [{only: 2, compute: bfloat}]}",
     "run.yaml:9:41: precision.layers.0.compute: expected float32, bfloat16 or float16, got 'bfloat'; did you "
     "mean 'bfloat16'?"},
    {"no_memory_budget", 14, "memory_budget: 0",
     "run.yaml:14:16: memory_budget: expected 'none', or a number, above 0, at most 1000000, got '0'"},
    {"memory_budget_with_a_unit", 14, "memory_budget: 70GiB",
     "run.yaml:14:16: memory_budget: expected 'none', or a number, above 0, at most 1000000, got '70GiB'"},
    {"unknown_mark_of_layers", 14, "gradient_checkpointing: [0, 1-2 selectiv]",
     "run.yaml:14:29: gradient_checkpointing.1: expected a number or a range such as 0-3 or 0-30 step 2, alone or "
     "followed by none, "
     "selective or full, got '1-2 selectiv'; did you mean 'selective'?"},
    {"marked_layer_past_the_model", 14, "gradient_checkpointing: [0, 3-4 selective]",
     "run.yaml:14:29: gradient_checkpointing.1: expected layers below model.layers 4, counted from 0, got 3-4"},
    // Between fields.
    {"heads_do_not_divide", 5,
     "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 5, feed_forward: 128, sequence: 32, "
     "vocabulary: 256}",
     "run.yaml:5:65: model.heads: width 64 is not a multiple of heads 5; the nearest that divide it are 4 and 8; or "
     "set head_width"},
    {"odd_head_width", 5,
     "model: {type: transformer, family: llama, layers: 4, width: 63, heads: 9, feed_forward: 128, sequence: 32, "
     "vocabulary: 256}",
     "run.yaml:5:65: model.heads: rotary positions turn pairs: width 63 / heads 9 = 7 must be even"},
    {"key_value_heads_do_not_divide", 5, kLlamaModel + ", key_value_heads: 3}",
     "run.yaml:5:125: model.key_value_heads: heads 4 is not a multiple of key_value_heads 3; the nearest that divide "
     "it "
     "are 2 and 4"},
    {"llama_without_feed_forward", 5,
     "model: {type: transformer, family: llama, layers: 4, width: 64, heads: 4, sequence: 32, vocabulary: 256}",
     "run.yaml:5:1: model.feed_forward: expected a width, because the llama family has no usual one, got none"},
    {"rotary_in_gpt2", 5,
     "model: {type: transformer, family: gpt2, layers: 4, width: 64, heads: 4, sequence: 32, vocabulary: 256, "
     "rotary_scaling: {type: llama3}}",
     "run.yaml:5:122: model.rotary_scaling.type: expected none, because the gpt2 family has learned positions, got "
     "llama3"},
    {"rotary_scaling_without_its_type", 5, kLlamaModel + ", rotary_scaling: {factor: 8}}",
     "run.yaml:5:142: model.rotary_scaling.factor: changes nothing with rotary_scaling.type: none"},
    {"rotary_base_in_gpt2", 5,
     "model: {type: transformer, family: gpt2, layers: 4, width: 64, heads: 4, sequence: 32, vocabulary: 256, "
     "rotary_base: 500000}",
     "run.yaml:5:105: model.rotary_base: expected none, because the gpt2 family has learned positions"},
    {"rotary_frequencies", 5, kLlamaModel + ", rotary_scaling: {type: llama3, low_frequency: 4}}",
     "run.yaml:5:125: model.rotary_scaling.high_frequency: expected a number above low_frequency"},
    {"reduce_below_compute", 9, "precision: {reduce: bfloat16}",
     "run.yaml:9:13: precision.reduce: bfloat16 would round gradients that compute: float32 made exactly; expected "
     "float32"},
    {"reduce_without_a_loss_scale", 9, "precision: {compute: bfloat16, reduce: float16}",
     "run.yaml:9:32: precision.reduce: small gradients become zero in float16 without a loss scale, which only "
     "compute: float16 has; expected bfloat16 or float32"},
    {"loss_scale_without_float16", 9, "precision: {compute: bfloat16, loss_scaling: {initial: 1024}}",
     "run.yaml:9:32: precision.loss_scaling: the loss is scaled only if something computes in float16; expected "
     "compute: float16"},
    {"loss_scale_that_never_shrinks", 9, "precision: {compute: float16, loss_scaling: {backoff: 1}}",
     "run.yaml:9:55: precision.loss_scaling.backoff: expected a number, at least 0.001, below 1, got '1'"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadLineTest, testing::ValuesIn(kBadLines),
                         [](const auto& info) { return info.param.name; });

TEST(BadConfig, AllErrorsAtOnceInTheOrderOfTheFile) {
  std::string text = config_with(2, "stpes: 100");
  text.replace(text.find("family: llama"), 13, "family: lama");
  text.replace(text.find("warmup: 10"), 10, "warmup: -1");
  text += "log: {evry: 10}\n";
  const std::string report = report_of(text, {"batch=x", "nothing"});
  const std::vector<std::string> expected = {
      "run.yaml:2:1: stpes: unknown key; did you mean 'steps'?",
      "run.yaml:5:36: model.family: expected gpt2 or llama, got 'lama'; did you mean 'llama'?",
      "run.yaml:8:34: schedule.warmup: expected an integer, at least 0, at most 1000000000000, got '-1'",
      "run.yaml:14:7: log.evry: unknown key; did you mean 'every'?",
      "override 'nothing': expected key=value, got no '='",
      "override 'batch=x': batch: expected an integer, at least 1, at most 1000000000, got 'x'",
      "6 errors in the configuration",
  };
  size_t from = 0;
  for (const std::string& line : expected) {
    const size_t at = report.find(line + "\n", from);
    ASSERT_NE(at, std::string::npos) << "no line, or not in this order: " << line << "\n" << report;
    from = at + line.size();
  }
}

TEST(BadConfig, ACaretStandsUnderThePlace) {
  EXPECT_EQ(report_of(config_with(8, "schedule: {type: cosine, wramup: 10}")),
            "run.yaml:8:26: schedule.wramup: unknown key; did you mean 'warmup'?\n"
            "    schedule: {type: cosine, wramup: 10}\n"
            "                             ^\n");
  // Columns count characters, not bytes.
  const std::string report = report_of(config_with(1, "run: {folder: \"\xc3\xa4\xc3\xb6\", rnaks: 2}"));
  EXPECT_EQ(first_line(report), "run.yaml:1:21: run.rnaks: unknown key; did you mean 'ranks'?");
}

}  // namespace
}  // namespace strata::trainer
