// SPDX-License-Identifier: MIT
#include "configs/manual.h"

#include "configs/listing.h"

namespace strata::configs {
namespace {

// A key with what the manual prints about it.
struct Entry {
  std::string path, expected, fallback, documentation;
};

std::string fallback_of(const Field& field) {
  if (field.required) return "required";
  if (field.append) return "[]";
  const Content content = field.get();
  if (content.values.empty() && !content.is_list) return "";
  Section single;
  single.fields.push_back(field);
  return list_values(single, {}).at(0).value;
}

// Calls on_section(path, documentation) and on_key(Entry) for all sections and keys of a configuration, in order.
template <class OnSection, class OnKey>
void walk(const Section& section, const std::string& path, const OnSection& on_section, const OnKey& on_key) {
  const auto inside = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  const auto key = [&](const Field& field, const std::string& note) {
    std::string documentation = field.documentation + note;
    if (!field.unit.empty()) documentation += " (" + field.unit + ")";
    on_key(Entry{inside(field.name), field.expected(), fallback_of(field), documentation});
  };
  const auto values_of = [&](const Section& part, const std::string& note) {
    for (const Field& field : part.fields) {
      if (field.is_value()) key(field, note);
    }
  };
  const auto sections_of = [&](const Section& part, const std::string& note) {
    for (const Field& field : part.fields) {
      if (field.is_value()) continue;
      on_section(inside(field.name), field.documentation + note);
      walk(field.section ? field.section() : field.append(), inside(field.name) + (field.append ? ".N" : ""),
           on_section, on_key);
    }
  };
  const auto for_each_alternative = [&](const auto& use) {
    if (!section.choice) return;
    const Choice& choice = *section.choice;
    for (size_t i = 0; i < choice.alternatives.size(); ++i) {
      const bool only_one = choice.alternatives.size() == 1;
      use(choice.select(i), only_one ? "" : "; with " + choice.name + ": " + choice.alternatives[i]);
    }
  };
  // Values come before sections, so that the keys of a section stay together.
  if (section.choice) {
    const ValueType words = {.kind = ValueType::Kind::word, .words = section.choice->alternatives};
    on_key(Entry{inside(section.choice->name), words.expected(), "required", section.choice->documentation});
  }
  for_each_alternative(values_of);
  values_of(section, "");
  for_each_alternative(sections_of);
  sections_of(section, "");
}

std::string escaped(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

}  // namespace

std::string help_text(const Section& prototype) {
  std::string text = "Keys of a configuration; each can be given as key=value after the file.\n";
  walk(
      prototype, "",
      [&](const std::string& path, const std::string& documentation) {
        text += "\n" + path + ": " + documentation + "\n";
      },
      [&](const Entry& entry) {
        text += "  " + entry.path + " = " + (entry.fallback.empty() ? "unset" : entry.fallback) + "\n      " +
                entry.documentation + ": " + entry.expected + "\n";
      });
  return text;
}

std::string reference_page(const Section& prototype, const std::string& title) {
  const std::string head = "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  std::string text = "# " + title + "\n" + head;
  walk(
      prototype, "",
      [&](const std::string& path, const std::string& documentation) {
        text += "\n## " + path + "\n\n" + documentation + "\n" + head;
      },
      [&](const Entry& entry) {
        text += "| `" + entry.path + "` | " + escaped(entry.expected) + " | " +
                (entry.fallback.empty() ? "" : "`" + entry.fallback + "`") + " | " + escaped(entry.documentation) +
                " |\n";
      });
  return text;
}

}  // namespace strata::configs
