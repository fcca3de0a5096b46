// SPDX-License-Identifier: MIT
#include <cmath>
#include <nlohmann/json.hpp>

#include "configs/manual.h"

namespace strata::configs {
namespace {

using Json = nlohmann::ordered_json;

Json schema_of(const Section& section);

void add_limits(Json& json, const Limits& limits) {
  if (std::isfinite(limits.minimum)) json[limits.excludes_minimum ? "exclusiveMinimum" : "minimum"] = limits.minimum;
  if (std::isfinite(limits.maximum)) json[limits.excludes_maximum ? "exclusiveMaximum" : "maximum"] = limits.maximum;
}

Json any_of(std::vector<Json> choices) {
  if (choices.size() == 1) return choices[0];
  return {{"anyOf", choices}};
}

std::string mark_pattern(const std::vector<std::string>& marks) {
  std::string pattern;
  for (const std::string& mark : marks) pattern += (pattern.empty() ? "( (" : "|") + mark;
  return pattern.empty() ? "" : pattern + "))?";
}

Json schema_of(const ValueType& type) {
  std::vector<Json> choices;
  if (!type.words.empty()) choices.push_back({{"type", "string"}, {"enum", type.words}});
  Json json;
  switch (type.kind) {
    case ValueType::Kind::boolean:
      json = {{"type", "boolean"}};
      break;
    case ValueType::Kind::integer:
      json = {{"type", "integer"}};
      add_limits(json, type.limits);
      break;
    case ValueType::Kind::real:
      json = {{"type", "number"}};
      add_limits(json, type.limits);
      break;
    case ValueType::Kind::text:
      json = {{"type", "string"}};
      if (!type.may_be_empty) json["minLength"] = 1;
      break;
    case ValueType::Kind::range:
      choices.push_back({{"type", "integer"}, {"minimum", 0}});
      json = {{"type", "string"},
              {"pattern", "^[0-9]+(-[0-9]+( step [1-9][0-9]*)?)?" + mark_pattern(type.marks) + "$"}};
      break;
    case ValueType::Kind::word:
      break;
  }
  if (!json.is_null()) choices.push_back(json);
  return any_of(choices);
}

Json schema_of(const Field& field) {
  Json json;
  if (field.section) {
    json = schema_of(field.section());
  } else if (field.append) {
    json = {{"type", "array"}, {"items", schema_of(field.append())}};
  } else {
    std::vector<Json> choices;
    if (field.value) choices.push_back(schema_of(*field.value));
    if (field.element) {
      Json list = {{"type", "array"}, {"items", schema_of(*field.element)}};
      if (field.list_length != 0) list["minItems"] = list["maxItems"] = field.list_length;
      choices.push_back(list);
    }
    json = any_of(choices);
  }
  json["description"] = field.documentation + (field.unit.empty() ? "" : " (" + field.unit + ")");
  return json;
}

Json object_of(const std::vector<Field>& fields, const Choice* choice, size_t alternative) {
  Json json = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  Json required = Json::array();
  if (choice) {
    json["properties"][choice->name] = {{"const", choice->alternatives[alternative]},
                                        {"description", choice->documentation}};
    required.push_back(choice->name);
  }
  for (const Field& field : fields) {
    json["properties"][field.name] = schema_of(field);
    if (field.required) required.push_back(field.name);
  }
  if (!required.empty()) json["required"] = required;
  return json;
}

Json schema_of(const Section& section) {
  if (!section.choice) return object_of(section.fields, nullptr, 0);
  std::vector<Json> alternatives;
  for (size_t i = 0; i < section.choice->alternatives.size(); ++i) {
    std::vector<Field> fields = section.choice->select(i).fields;
    fields.insert(fields.end(), section.fields.begin(), section.fields.end());
    alternatives.push_back(object_of(fields, &*section.choice, i));
  }
  if (alternatives.size() == 1) return alternatives[0];
  return {{"oneOf", alternatives}};
}

}  // namespace

std::string json_schema(const Section& prototype, const std::string& title) {
  Json json = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  json.update(schema_of(prototype));
  return json.dump(2) + "\n";
}

}  // namespace strata::configs
