// SPDX-License-Identifier: MIT
// Rules of a run whose documents are separate.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_texts.h"

namespace strata::trainer {
namespace {

// Returns the report of a run with separate documents and these overrides.
std::string report_with(std::vector<std::string> overrides) {
  const std::string separate = "data: {type: text, train: train.bin, validation: validation.bin, documents: separate}";
  return first_line(report_of(config_with(6, separate), overrides));
}

TEST(BadDocumentsConfig, EveryQuerySeesAKeyOfItsDocument) {
  EXPECT_EQ(report_with({}), "no error");
  for (const std::string pattern : {"window(8)", "causal | prefix(4)", "full"}) {
    EXPECT_EQ(report_with({"model.attention=" + pattern}), "no error");
  }
  // Each query sees the first four positions, which may be those of another document.
  const std::string prefix = "model.attention=prefix(4)";
  EXPECT_EQ(report_of(config_with(0, ""), {prefix}), "no error");
  EXPECT_EQ(report_with({prefix}),
            "override '" + prefix +
                "': model.attention: data.documents is separate; attention pattern: in `prefix(4) & documents` the "
                "query at row 4 of 32 sees no key; add `| window(1)`, so that each query sees itself");
  EXPECT_EQ(report_with({prefix, "model.sinks=true"}), "no error");
}

TEST(BadDocumentsConfig, EveryQueryOfADifferingLayerSeesAKeyOfItsDocument) {
  const std::string layers = "layers=[{only: 1, attention: causal}, {only: 3, attention: prefix(4)}]";
  EXPECT_EQ(report_of(config_with(0, ""), {layers}), "no error");
  EXPECT_EQ(report_with({layers}),
            "override '" + layers +
                "': layers.1.attention: data.documents is separate; attention pattern: in `prefix(4) & documents` the "
                "query at row 4 of 32 sees no key; add `| window(1)`, so that each query sees itself");
}

TEST(BadDocumentsConfig, ThePatternHasRoomForAnotherWord) {
  std::string pattern = "model.attention=causal";
  for (int i = 0; i < 15; ++i) pattern += " & full";
  EXPECT_EQ(report_of(config_with(0, ""), {pattern}), "no error");
  EXPECT_NE(report_with({pattern, "model.sinks=true"}), "no error");
  EXPECT_EQ(report_with({pattern}), "override '" + pattern +
                                        "': model.attention: data.documents is separate; attention pattern: it has 17 "
                                        "words, expected at most 16");
}

TEST(BadDocumentsConfig, AWrongPatternIsReportedOnce) {
  const std::string report =
      report_of(config_with(6, "data: {type: text, train: a, validation: b, documents: separate}"),
                {"model.attention=causal & documents"});
  EXPECT_EQ(report.find("errors in the configuration"), std::string::npos) << report;
}

TEST(BadDocumentsConfig, OffsetsFitIntoInt32) {
  const std::vector<std::string> most = {"model.sequence=65536", "evaluation.tokens=0", "batch=65536"};
  const auto with = [&](const std::string& micro_batch) {
    std::vector<std::string> all = most;
    all.push_back("micro_batch=" + micro_batch);
    return all;
  };
  EXPECT_EQ(report_with(with("16384")), "no error");
  EXPECT_EQ(report_of(config_with(0, ""), with("32768")), "no error");
  EXPECT_EQ(report_with(with("32768")),
            "override 'micro_batch=32768': micro_batch: 32768 x model.sequence 65536 = 2147483648 tokens; expected at "
            "most 2147483647, because data.documents is separate");
}

}  // namespace
}  // namespace strata::trainer
