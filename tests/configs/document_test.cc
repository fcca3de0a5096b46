// SPDX-License-Identifier: MIT
#include "configs/document.h"

#include <gtest/gtest.h>

#include "configs/overrides.h"

namespace strata::configs {
namespace {

NodePtr parse(const std::string& text) {
  ErrorList errors;
  const NodePtr root = parse_document(std::make_shared<Source>(Source{.name = "d", .text = text}), "", errors);
  EXPECT_TRUE(errors.empty()) << errors.report();
  return root;
}

TEST(Document, KeepsPlacesAndQuotes) {
  const NodePtr root = parse("a: 1\nb:\n  - \"2\"\n  - {c: x y}\n");
  ASSERT_EQ(root->entries.size(), 2u);
  EXPECT_EQ(root->entries[1].key_place.text(), "d:2:1");
  const Node& list = *root->find("b");
  EXPECT_TRUE(list.items[0]->quoted);
  EXPECT_EQ(list.items[0]->place.text(), "d:3:5");
  EXPECT_EQ(list.items[1]->find("c")->text, "x y");
  EXPECT_FALSE(root->find("a")->quoted);
  EXPECT_EQ(root->find("none"), nullptr);
}

TEST(Document, ColumnsCountCharacters) {
  const NodePtr root = parse("{\xc3\xa4: \xe2\x82\xac, b: 2}");
  EXPECT_EQ(root->entries[1].key_place.text(), "d:1:8");
}

TEST(Document, ThreeDashesAndComments) { EXPECT_EQ(parse("# first\n---\na: 1 # last\n...\n")->find("a")->text, "1"); }

TEST(Document, OneLongLineIsReadInOnePass) {
  std::string text = "a: [1";
  for (int i = 0; i < 60'000; ++i) text += ",1";
  EXPECT_EQ(parse(text + "]")->find("a")->items.size(), 60'001u);
}

TEST(Place, AnOriginFitsIntoACommentOfYaml) {
  const auto source = std::make_shared<Source>(Source{.name = "jos\xe9/a\nb.yaml", .text = ""});
  EXPECT_EQ((Place{source, 3, 1}).origin(), "jos?/a?b.yaml:3");
  EXPECT_EQ((Place{source, 0, 0}).origin(), "jos?/a?b.yaml");
}

TEST(Override, ChangesOneAliasAndNotTheOther) {
  ErrorList errors;
  const NodePtr root = parse("a: &x {b: 1, c: [1, 2]}\nd: *x\n");
  const NodePtr changed = apply_override(apply_override(root, "d.b=7", errors), "d.c.1=[3]", errors);
  EXPECT_TRUE(errors.empty()) << errors.report();
  EXPECT_EQ(changed->find("a")->find("b")->text, "1");
  EXPECT_EQ(changed->find("d")->find("b")->text, "7");
  EXPECT_EQ(changed->find("d")->find("c")->items[1]->items[0]->text, "3");
  EXPECT_EQ(root->find("d")->find("b")->text, "1");
}

TEST(Override, MakesSectionsThatWereNotThere) {
  ErrorList errors;
  const NodePtr changed = apply_override(parse("a: 1\n"), "x.y.z=hello world", errors);
  EXPECT_EQ(changed->find("x")->find("y")->find("z")->text, "hello world");
  EXPECT_EQ(changed->find("x")->find("y")->entries[0].key_place.origin(), "override");
}

TEST(Override, HasNoComment) {
  for (const std::string text : {"runs/new #2", "a\t#b", "7 # steps"}) {
    ErrorList errors;
    const NodePtr root = parse("a: 1\n");
    EXPECT_EQ(apply_override(root, "x.y=" + text, errors), root);
    EXPECT_NE(errors.report().find("expected a value without a comment, got '"), std::string::npos) << errors.report();
  }
  for (const std::string text : {"'runs/new #2'", "\"runs/new #2\"", "runs/new#2", "[1, 2]  # two"}) {
    ErrorList errors;
    apply_override(parse("a: 1\n"), "x.y=" + text, errors);
    EXPECT_TRUE(errors.empty()) << errors.report();
  }
}

TEST(Override, HasAKeyOfFewParts) {
  std::string path = "a";
  for (size_t part = 1; part < kMostLevels; ++part) path += ".a";
  ErrorList errors;
  apply_override(parse("b: 1\n"), path + "=1", errors);
  EXPECT_TRUE(errors.empty()) << errors.report();
  apply_override(parse("b: 1\n"), path + ".a=1", errors);
  EXPECT_NE(errors.report().find("expected a key of at most 64 parts, got 65"), std::string::npos) << errors.report();
}

}  // namespace
}  // namespace strata::configs
