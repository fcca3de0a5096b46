// SPDX-License-Identifier: MIT
// Reads a configuration of its own, in which a section has several types with sections of their own.
#include "configs/reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "configs/listing.h"
#include "configs/manual.h"
#include "configs/new_names.h"

namespace strata::configs {
namespace {

struct Wheels {
  int64_t count = 4;
  template <class Fields>
  void describe(Fields& fields) {
    fields.add("count", count, "how many", between(1, 18));
  }
};

struct Car {
  Wheels wheels;
  double weight = 0;
  template <class Fields>
  void describe(Fields& fields) {
    fields.section("wheels", wheels, "what it runs on");
    fields.require("weight", weight, "empty", kPositive, "kg");
  }
};

struct Boat {
  bool sails = false;
  template <class Fields>
  void describe(Fields& fields) {
    fields.add("sails", sails, "moved by wind");
  }
};

struct Vehicle {
  std::variant<Car, Boat> type;
  std::string name;
  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"car", "boat"}, "what it is");
    fields.add("name", name, "what it is called");
  }
};

const std::vector<RenamedKey> kRenamed = {{"limit_of_all", "limit"}, {"vehicles.heft", "vehicles.weight"}};

struct Fleet {
  Vehicle flagship;
  std::vector<Vehicle> vehicles;
  std::optional<int64_t> limit;
  template <class Fields>
  void describe(Fields& fields) {
    fields.section("flagship", flagship, "the first of them");
    fields.sections("vehicles", vehicles, "the others");
    fields.add_or_word("limit", limit, "none", "most of them");
    fields.renamed(kRenamed);
  }
};

struct Outcome {
  Fleet fleet;
  Places places;
  std::string report;
};

Outcome read(const std::string& text) {
  Outcome outcome;
  ErrorList errors;
  const NodePtr root = parse_document(std::make_shared<Source>(Source{.name = "f", .text = text}), "", errors);
  outcome.places = read_document(*root, outcome.fleet, errors);
  outcome.report = errors.report();
  return outcome;
}

TEST(Reader, ReadsAlternativesAndLists) {
  const Outcome outcome = read(
      "flagship: {type: boat, sails: on, name: A}\n"
      "vehicles:\n"
      "  - {type: car, weight: 900, wheels: {count: 3}}\n"
      "  - {type: boat}\n"
      "limit: 7\n");
  EXPECT_EQ(outcome.report, "");
  EXPECT_TRUE(std::get<Boat>(outcome.fleet.flagship.type).sails);
  ASSERT_EQ(outcome.fleet.vehicles.size(), 2u);
  EXPECT_EQ(std::get<Car>(outcome.fleet.vehicles[0].type).wheels.count, 3);
  EXPECT_TRUE(std::holds_alternative<Boat>(outcome.fleet.vehicles[1].type));
  EXPECT_EQ(outcome.fleet.limit, 7);
  EXPECT_EQ(place_of(outcome.places, "vehicles.0.wheels.count").text(), "f:3:39");
  EXPECT_EQ(place_of(outcome.places, "vehicles.1.name").text(), "f:4:5");
}

TEST(Reader, EachErrorOnceWhenTheTypeIsNotKnown) {
  EXPECT_EQ(read("flagship: {type: plane, sails: on, weight: 3, wings: 2}\n").report,
            "f:1:18: flagship.type: expected car or boat, got 'plane'\n"
            "    flagship: {type: plane, sails: on, weight: 3, wings: 2}\n"
            "                     ^\n"
            "f:1:47: flagship.wings: unknown key; expected one of: type, name\n"
            "    flagship: {type: plane, sails: on, weight: 3, wings: 2}\n"
            "                                                  ^\n"
            "2 errors in the configuration\n");
}

TEST(Reader, HintsInsideListsAndAlternatives) {
  const Outcome outcome =
      read("flagship: {type: boat, sials: on}\nvehicles: [{type: car, wieght: 1, wheels: {cuont: 3}}]\n");
  EXPECT_NE(outcome.report.find("flagship.sials: unknown key; did you mean 'sails'?"), std::string::npos);
  EXPECT_NE(outcome.report.find("vehicles.0.wieght: unknown key; did you mean 'weight'?"), std::string::npos);
  EXPECT_NE(outcome.report.find("vehicles.0.wheels.cuont: unknown key; did you mean 'count'?"), std::string::npos);
  EXPECT_NE(outcome.report.find("3 errors"), std::string::npos) << outcome.report;
}

// "heft" is no misspelling of anything. `weight` is required, but not reported as missing too.
TEST(Reader, RefusesAnOldNameWithTheNewOne) {
  EXPECT_EQ(read("vehicles: [{type: boat}, {type: car, heft: 1}]\nlimit_of_all: 7\nflagship: {type: boat}\n").report,
            "f:1:38: vehicles.1.heft: was renamed to vehicles.1.weight\n"
            "    vehicles: [{type: boat}, {type: car, heft: 1}]\n"
            "                                         ^\n"
            "f:2:1: limit_of_all: was renamed to limit\n"
            "    limit_of_all: 7\n"
            "    ^\n"
            "2 errors in the configuration\n");
  const std::string elsewhere = read("flagship: {type: car, weight: 1, heft: 1}\n").report;
  EXPECT_NE(elsewhere.find("flagship.heft: unknown key"), std::string::npos) << elsewhere;
}

TEST(Reader, ReadsADocumentAfterItsOldNamesAreReplaced) {
  ErrorList errors;
  const std::string text =
      "vehicles: [&a {type: car, heft: 1, wheels: {count: 3}}, *a]\n"
      "flagship: {type: car, heft: 2}\nlimit_of_all: 7\n";
  const NodePtr before = parse_document(std::make_shared<Source>(Source{.name = "f", .text = text}), "", errors);
  const NodePtr after = with_new_names(before, kRenamed);
  for (const size_t i : {0, 1}) {
    const NodePtr vehicle = after->find("vehicles")->items.at(i);
    EXPECT_EQ(vehicle->find("heft"), nullptr);
    EXPECT_EQ(vehicle->find("weight")->text, "1");
    EXPECT_EQ(vehicle->find("wheels")->find("count")->place.text(), "f:1:52");
  }
  EXPECT_EQ(after->find("limit")->place.text(), "f:3:15");
  EXPECT_EQ(after->find("flagship")->find("heft")->text, "2");  // in no renamed section
  EXPECT_NE(before->find("limit_of_all"), nullptr);
}

TEST(Reader, ListingAndYaml) {
  Outcome outcome = read("flagship: {type: car, weight: 1.5}\nvehicles: [{type: boat, name: \"2\"}]\n");
  EXPECT_EQ(resolved_yaml(section_of(outcome.fleet), outcome.places),
            "flagship:\n"
            "  type: car  # f:1\n"
            "  wheels:\n"
            "    count: 4  # default\n"
            "  weight: 1.5  # f:1\n"
            "  name: \"\"  # default\n"
            "vehicles:\n"
            "  - type: boat  # f:2\n"
            "    sails: false  # default\n"
            "    name: \"2\"  # f:2\n"
            "limit: none  # default\n");
}

TEST(Manual, SchemaHasEveryAlternative) {
  Fleet fleet;
  const auto schema = nlohmann::json::parse(json_schema(section_of(fleet), "Fleet"));
  const auto& alternatives = schema["properties"]["flagship"]["oneOf"];
  ASSERT_EQ(alternatives.size(), 2u);
  EXPECT_EQ(alternatives[0]["properties"]["weight"]["exclusiveMinimum"], 0);
  EXPECT_EQ(alternatives[0]["required"], (nlohmann::json{"type", "weight"}));
  EXPECT_EQ(alternatives[1]["properties"]["type"]["const"], "boat");
  EXPECT_TRUE(schema["properties"]["vehicles"]["items"].contains("oneOf"));
}

TEST(Manual, HelpSaysWhichTypeAKeyBelongsTo) {
  Fleet fleet;
  const std::string help = help_text(section_of(fleet));
  EXPECT_NE(help.find("  flagship.weight = required\n      empty; with type: car (kg): a number, above 0\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("flagship.wheels.count = 4\n"), std::string::npos);
}

}  // namespace
}  // namespace strata::configs
