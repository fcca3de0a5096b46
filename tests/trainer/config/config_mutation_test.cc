// SPDX-License-Identifier: MIT
// Writes every key of every shipped configuration wrongly in four ways. Each is refused, nearly always with the right
// hint.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "configs/config_errors.h"
#include "configs/document.h"
#include "tests/trainer/test_files.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {
namespace {

using configs::Node;
using configs::NodePtr;

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// A key, the section that holds it, and its place.
struct Key {
  std::string section, name;
  size_t offset;
  size_t line;
};

void collect(const Node& node, const std::string& section, const std::string& text, std::vector<Key>& keys) {
  for (const Node::Entry& entry : node.entries) {
    size_t offset = 0;
    for (int line = 1; line < entry.key_place.line; ++line) offset = text.find('\n', offset) + 1;
    offset += static_cast<size_t>(entry.key_place.column) - 1;
    keys.push_back({section, entry.key, offset, static_cast<size_t>(entry.key_place.line)});
    collect(*entry.value, section.empty() ? entry.key : section + "." + entry.key, text, keys);
  }
}

std::vector<Key> keys_of(const std::string& text) {
  configs::ErrorList errors;
  const auto source = std::make_shared<configs::Source>(configs::Source{.name = "shipped", .text = text});
  const NodePtr root = configs::parse_document(source, "", errors);
  errors.throw_if_any();
  std::vector<Key> keys;
  collect(*root, "", text, keys);
  return keys;
}

// Returns the misspelt names, without the name itself.
std::vector<std::string> misspellings(const std::string& name) {
  std::set<std::string> all;
  for (size_t i = 0; i < name.size(); ++i) {
    std::string shorter = name;
    all.insert(shorter.erase(i, 1));
    if (i + 1 == name.size()) continue;
    std::string swapped = name;
    std::swap(swapped[i], swapped[i + 1]);
    all.insert(swapped);
  }
  std::string upper = name, capital = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  capital[0] = upper[0];
  all.insert(upper);
  all.insert(capital);
  all.erase(name);
  all.erase("");
  return {all.begin(), all.end()};
}

class Tally {
 public:
  // The error must be in line `line_of_key`.
  void count(const std::string& text, const std::string& wanted, size_t line_of_key, const std::string& what) {
    ++tried_;
    try {
      parse_trainer_config("c.yaml", text, {});
      ADD_FAILURE() << "accepted: " << what;
    } catch (const configs::ConfigErrors& errors) {
      const std::string report = errors.what();
      EXPECT_NE(report.find("c.yaml:" + std::to_string(line_of_key) + ":"), std::string::npos) << what << "\n"
                                                                                               << report;
      const size_t hint = report.find("did you mean '");
      const size_t begin = hint == std::string::npos ? std::string::npos : hint + 14;
      const std::string first =
          begin == std::string::npos ? "" : report.substr(begin, report.find('\'', begin) - begin);
      if (first == wanted) {
        ++right_;
      } else {
        wrong_ += what + ": '" + first + "'\n";
      }
    }
  }
  ~Tally() {
    EXPECT_GT(tried_, 200);
    EXPECT_GE(right_, 0.95 * tried_) << right_ << " of " << tried_ << " hints are right; wrong:\n" << wrong_;
    std::printf("%d of %d hints are right\n%s", right_, tried_, wrong_.c_str());
  }

 private:
  int tried_ = 0, right_ = 0;
  std::string wrong_;
};

TEST(ConfigMutation, MisspeltKeysAreRefusedWithTheRightHint) {
  Tally tally;
  for (const auto& path : shipped()) {
    const std::string text = read_file(path);
    for (const Key& key : keys_of(text)) {
      for (const std::string& wrong : misspellings(key.name)) {
        std::string mutated = text;
        mutated.replace(key.offset, key.name.size(), wrong);
        tally.count(mutated, key.name, key.line, path.filename().string() + ": " + key.section + "." + wrong);
      }
    }
  }
}

// Moves `key: value` of a flow section `{...}` into another one.
TEST(ConfigMutation, KeysInAWrongSectionAreRefusedWithTheRightHint) {
  Tally tally;
  for (const auto& path : shipped()) {
    const std::string text = read_file(path);
    const std::vector<Key> keys = keys_of(text);
    for (const Key& key : keys) {
      if (key.section.empty() || text[key.offset + key.name.size()] != ':') continue;
      const size_t line_begin = text.rfind('\n', key.offset) + 1;
      const std::string line = text.substr(line_begin, text.find('\n', line_begin) - line_begin);
      const bool flow = line.find('{') != std::string::npos && key.offset - line_begin > line.find('{');
      if (!flow || key.section.find('.') != std::string::npos) continue;
      // Finds the end of `key: value`: the comma or brace outside of inner brackets.
      size_t end = key.offset;
      for (int depth = 0; depth > 0 || (text[end] != ',' && text[end] != '}'); ++end) {
        if (text[end] == '[' || text[end] == '{') ++depth;
        if (text[end] == ']' || text[end] == '}') --depth;
      }
      const std::string pair = text.substr(key.offset, end - key.offset);
      for (const std::string other : {"run", "optimizer", "log"}) {
        const bool has_it = std::any_of(keys.begin(), keys.end(),
                                        [&](const Key& k) { return k.section == other && k.name == key.name; });
        // `every` and `type` are keys of several sections.
        if (other == key.section || has_it) continue;
        std::string mutated = text;
        const size_t from = text[end] == ',' ? key.offset : key.offset - (text[key.offset - 1] == ' ' ? 2 : 0);
        mutated.erase(from, (text[end] == ',' ? end + 2 : end) - from);
        const size_t section = mutated.find("\n" + other + ": {");
        ASSERT_NE(section, std::string::npos);
        const size_t brace = mutated.find('{', section);
        mutated.insert(brace + 1, pair + ", ");
        const size_t line_number =
            static_cast<size_t>(std::count(mutated.begin(), mutated.begin() + static_cast<long>(brace), '\n')) + 1;
        tally.count(mutated, key.section + "." + key.name, line_number,
                    path.filename().string() + ": " + other + "." + key.name + " for " + key.section);
      }
    }
  }
}

}  // namespace
}  // namespace strata::trainer
