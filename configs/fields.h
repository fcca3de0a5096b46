// SPDX-License-Identifier: MIT
// The fields of a configuration, collected from its describe(). This one description serves for reading, help,
// reference page, JSON Schema and resolved.yaml.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/text/word_of.h"
#include "configs/limits.h"
#include "configs/range.h"
#include "configs/renamed_key.h"
#include "configs/value.h"

namespace strata::configs {

// The content of a field: one value, a list of values, or nothing.
struct Content {
  bool is_list = false;
  std::vector<Value> values = {};
};

struct Section;

struct Field {
  std::string name, documentation, unit = {};
  bool required = false;

  // For a field that holds a value, a list of values, or either of them: the accepted types and the access to the
  // member.
  std::optional<ValueType> value = {}, element = {};
  size_t list_length = 0;  // 0 means any length
  std::function<void(const Content&)> set = {};
  std::function<Content()> get = {};

  // For a field that holds a section or a list of sections; append() adds one section to the list.
  std::function<Section()> section = {}, append = {};
  std::function<std::vector<Section>()> all = {};

  bool is_value() const { return value || element; }
  // A description for error messages, such as "an integer, at least 1" or "a list of 2, each a number".
  std::string expected() const;
};

// The key whose value decides which other keys a section has.
struct Choice {
  std::string name, documentation;
  std::vector<std::string> alternatives;
  std::function<Section(size_t)> select;  // selects an alternative and sets it to its defaults
  std::function<size_t()> selected;
  std::function<Section()> current;  // fields of the selected alternative
};

struct Section {
  std::vector<Field> fields = {};
  std::optional<Choice> choice = {};
  std::function<void()> complete = {};   // called after all keys were read; derives further values from them
  std::vector<RenamedKey> renamed = {};  // keys of a whole configuration; only its outermost section has them

  bool needs_keys() const;  // true if a key is required
};

// Converts members of a configuration to Values and back.
template <class T>
struct MemberTraits;

template <class Config>
Section section_of(Config& config);

// The visitor that is passed to describe(fields). The members must outlive the Section.
class Fields {
 public:
  // Adds a field whose default is the member's current value.
  template <class T>
  void add(std::string name, T& member, std::string documentation, Limits limits = kAny, std::string unit = {}) {
    Field field = described(std::move(name), std::move(documentation), std::move(unit));
    MemberTraits<T>::bind(field, member, limits);
    section_.fields.push_back(std::move(field));
  }
  template <class T>
  void require(std::string name, T& member, std::string documentation, Limits limits = kAny, std::string unit = {}) {
    add(std::move(name), member, std::move(documentation), limits, std::move(unit));
    Field& field = section_.fields.back();
    field.required = true;
    if (field.value) field.value->may_be_empty = false;
  }
  // Adds a field that may be left out; it then has no value.
  template <class T>
  void add_optional(std::string name, std::optional<T>& member, std::string documentation, Limits limits = kAny) {
    add_or_word(std::move(name), member, "", std::move(documentation), {}, limits);
  }
  // Adds an optional field; in YAML, `word` stands for "no value".
  template <class T>
  void add_or_word(std::string name, std::optional<T>& member, std::string word, std::string documentation,
                   std::string unit = {}, Limits limits = kAny) {
    Field field = described(std::move(name), std::move(documentation), std::move(unit));
    field.value = MemberTraits<T>::type(limits);
    if (!word.empty()) field.value->words.push_back(word);
    field.set = [&member, word](const Content& content) {
      const Value& value = content.values.at(0);
      const std::string* text = std::get_if<std::string>(&value);
      if (text && !word.empty() && *text == word) {
        member.reset();
      } else {
        member = MemberTraits<T>::from(value);
      }
    };
    field.get = [&member, word]() -> Content {
      if (member) return {.values = {MemberTraits<T>::to(*member)}};
      if (word.empty()) return {};
      return {.values = {word}};
    };
    section_.fields.push_back(std::move(field));
  }
  template <class Config>
  void section(std::string name, Config& member, std::string documentation) {
    Field field = described(std::move(name), std::move(documentation), {});
    field.section = [&member] { return section_of(member); };
    // Keys that a type requires do not depend on its values.
    static const bool kNeedsKeys = section_of(member).needs_keys();
    field.required = kNeedsKeys;
    section_.fields.push_back(std::move(field));
  }
  template <class Config>
  void sections(std::string name, std::vector<Config>& member, std::string documentation) {
    Field field = described(std::move(name), std::move(documentation), {});
    field.append = [&member] { return section_of(member.emplace_back()); };
    field.all = [&member] {
      std::vector<Section> result;
      for (Config& config : member) result.push_back(section_of(config));
      return result;
    };
    section_.fields.push_back(std::move(field));
  }
  // Makes the section a tagged union: the value of the key `name` selects which of the types Ts adds its fields to the
  // section.
  template <class... Ts>
  void choose(std::string name, std::variant<Ts...>& member, const std::array<const char*, sizeof...(Ts)>& alternatives,
              std::string documentation) {
    using Variant = std::variant<Ts...>;
    Choice choice{std::move(name), std::move(documentation), {alternatives.begin(), alternatives.end()}, {}, {}, {}};
    choice.select = [&member](size_t index) {
      static constexpr std::array<void (*)(Variant&), sizeof...(Ts)> kMake = {
          [](Variant& variant) { variant.template emplace<Ts>(); }...};
      kMake.at(index)(member);
      return std::visit([](auto& selected) { return section_of(selected); }, member);
    };
    choice.selected = [&member] { return member.index(); };
    choice.current = [&member] { return std::visit([](auto& selected) { return section_of(selected); }, member); };
    section_.choice = std::move(choice);
  }

  // `fill` is called after the keys of the section were read and before any rule is checked.
  void complete(std::function<void()> fill) { section_.complete = std::move(fill); }

  // Old names of keys, which are refused with the new ones. Only the outermost section of a configuration has them.
  void renamed(std::vector<RenamedKey> keys) { section_.renamed = std::move(keys); }

  Section take() { return std::move(section_); }

 private:
  static Field described(std::string name, std::string documentation, std::string unit) {
    Field field;
    field.name = std::move(name);
    field.documentation = std::move(documentation);
    field.unit = std::move(unit);
    return field;
  }

  Section section_;
};

template <class Config>
Section section_of(Config& config) {
  Fields fields;
  config.describe(fields);
  return fields.take();
}

// Types that a Value holds without conversion.
template <class T, ValueType::Kind kKind>
struct PlainTraits {
  static ValueType type(Limits limits) { return {.kind = kKind, .limits = limits, .may_be_empty = true}; }
  static T from(const Value& value) { return std::get<T>(value); }
  static Value to(const T& member) { return member; }
  static void bind(Field& field, T& member, Limits limits) {
    field.value = type(limits);
    field.set = [&member](const Content& content) { member = from(content.values.at(0)); };
    field.get = [&member]() -> Content { return {.values = {to(member)}}; };
  }
};
template <>
struct MemberTraits<bool> : PlainTraits<bool, ValueType::Kind::boolean> {};
template <>
struct MemberTraits<int64_t> : PlainTraits<int64_t, ValueType::Kind::integer> {};
template <>
struct MemberTraits<double> : PlainTraits<double, ValueType::Kind::real> {};
template <>
struct MemberTraits<std::string> : PlainTraits<std::string, ValueType::Kind::text> {};
template <>
struct MemberTraits<Range> : PlainTraits<Range, ValueType::Kind::range> {};

// Enums whose namespace has a function names(T), which returns one name for each enumerator, in order.
template <class T>
requires std::is_enum_v<T>
struct MemberTraits<T> {
  static ValueType type(Limits) {
    const auto& all = names(T{});
    return {.kind = ValueType::Kind::word, .words = {all.begin(), all.end()}};
  }
  static T from(const Value& value) {
    const auto& all = names(T{});
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == std::get<std::string>(value)) return static_cast<T>(i);
    }
    throw std::logic_error("no such name: " + std::get<std::string>(value));
  }
  static Value to(T member) { return word_of(member); }
  static void bind(Field& field, T& member, Limits limits) {
    field.value = type(limits);
    field.set = [&member](const Content& content) { member = from(content.values.at(0)); };
    field.get = [&member]() -> Content { return {.values = {to(member)}}; };
  }
};

template <class Word>
struct MemberTraits<MarkedRange<Word>> {
  using Member = MarkedRange<Word>;
  static ValueType type(Limits limits) {
    ValueType type = MemberTraits<Range>::type(limits);
    type.marks = MemberTraits<Word>::type(limits).words;
    return type;
  }
  static Member from(const Value& value) {
    if (const Range* range = std::get_if<Range>(&value)) return {*range};
    const std::string& text = std::get<std::string>(value);
    const size_t space = text.rfind(' ');
    return {parse_range(text.substr(0, space)).value(), MemberTraits<Word>::from(text.substr(space + 1))};
  }
  static Value to(const Member& member) {
    if (!member.mark) return member.range;
    return to_text(member.range) + " " + word_of(*member.mark);
  }
};

template <class T>
std::vector<T> list_of(const Content& content) {
  std::vector<T> list;
  for (const Value& value : content.values) list.push_back(MemberTraits<T>::from(value));
  return list;
}

template <class List>
Content content_of_list(const List& list) {
  Content content{.is_list = true};
  for (const auto& element : list) content.values.push_back(MemberTraits<typename List::value_type>::to(element));
  return content;
}

template <class T, size_t N>
struct MemberTraits<std::array<T, N>> {
  static void bind(Field& field, std::array<T, N>& member, Limits limits) {
    field.element = MemberTraits<T>::type(limits);
    field.list_length = N;
    field.set = [&member](const Content& content) {
      for (size_t i = 0; i < N; ++i) member[i] = MemberTraits<T>::from(content.values.at(i));
    };
    field.get = [&member] { return content_of_list(member); };
  }
};

template <class T>
struct MemberTraits<std::vector<T>> {
  static void bind(Field& field, std::vector<T>& member, Limits limits) {
    field.element = MemberTraits<T>::type(limits);
    field.set = [&member](const Content& content) { member = list_of<T>(content); };
    field.get = [&member] { return content_of_list(member); };
  }
};

// A field that holds either a word or a list.
template <class Word, class T>
struct MemberTraits<std::variant<Word, std::vector<T>>> {
  using Member = std::variant<Word, std::vector<T>>;
  static void bind(Field& field, Member& member, Limits limits) {
    field.value = MemberTraits<Word>::type(limits);
    field.element = MemberTraits<T>::type(limits);
    field.set = [&member](const Content& content) {
      if (content.is_list) {
        member = list_of<T>(content);
      } else {
        member = MemberTraits<Word>::from(content.values.at(0));
      }
    };
    field.get = [&member]() -> Content {
      if (const Word* word = std::get_if<Word>(&member)) return {.values = {MemberTraits<Word>::to(*word)}};
      return content_of_list(std::get<std::vector<T>>(member));
    };
  }
};

}  // namespace strata::configs
