#include "plan/position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Position Sample(Position::Kind kind) {
  Position position;
  position.kind = kind;
  position.job = "train";
  position.dataset = std::string(32, 'a');
  position.rows = std::string(32, 'b');
  position.manifest = std::string(64, 'c');
  position.seed = std::numeric_limits<uint64_t>::max();
  position.generation = Generation{2};
  position.tag = 40;
  position.consumers = 4;
  position.batch = 32;
  position.epoch = Epoch{3};
  position.delivered.epochs_done = Epoch{3};
  position.delivered.epochs[Epoch{3}].AddLanes({0, 6});
  position.delivered.Add({Epoch{3}, ReplicaId{}, LaneId{6}}, {0, 0}, {500, 0});
  position.delivered.Add({Epoch{3}, ReplicaId{}, LaneId{6}}, {600, 2}, kLaneEndCursor);
  position.delivered.Add({Epoch{4}, ReplicaId{}, LaneId{0}}, {0, 0}, {32, 0});
  if (kind == Position::Kind::kPart) {
    position.index = 3;
    position.ended = true;
    position.seated_at = 12;
    position.base.epochs_done = Epoch{2};
    position.base.Add({Epoch{2}, ReplicaId{}, LaneId{1}}, {5, 0}, {7, 0});
  }
  return position;
}

RingPosition SampleRing() {
  RingPosition ring;
  ring.epoch = Epoch{1};
  ring.turn = 77;
  ring.ring = {{LaneId{4}, {64, 0}}, {LaneId{9}, {32, 1}}};
  ring.place = 1;
  ring.next_lane = 10;
  ring.tails = {{LaneId{2}, {96, 0}, 3, 5}};
  return ring;
}

Result<Position> Parse(const Json& json) { return ParsePosition(json.dump()); }

TEST(History, NothingIsLeftOfEpochsThatAreLeftBehind) {
  History history = Sample(Position::Kind::kPosition).delivered;
  history.LeaveBehind(Epoch{2});
  EXPECT_EQ(history, Sample(Position::Kind::kPosition).delivered) << "they were gone before";
  history.LeaveBehind(Epoch{4});
  EXPECT_EQ(history.epochs_done, Epoch{4});
  EXPECT_EQ(history.epochs.begin()->first, Epoch{4});
  history.LeaveBehind(Epoch{7});
  EXPECT_EQ(history.epochs_done, Epoch{7});
  EXPECT_TRUE(history.epochs.empty());
}

TEST(Position, ComesBackFromItsJsonAsItWas) {
  for (const auto kind : {Position::Kind::kPosition, Position::Kind::kPart}) {
    const Position position = Sample(kind);
    const auto again = ParsePosition(ToJson(position));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, position);
  }
  Position strict = Sample(Position::Kind::kPosition);
  strict.mode = Mode::kStrict;
  strict.ring = SampleRing();
  const auto again = ParsePosition(ToJson(strict));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, strict);
}

// The others of version 1 are in tests/states.
TEST(Position, AStrictStateOfVersion1StaysReadable) {
  const auto state = ParsePosition(
      R"({"penstock":1,"kind":"position","job":"train","dataset":"d","rows":"r","manifest":"m","mode":"strict","seed":7,"generation":1,)"
      R"("tag":9,"consumers":2,"batch":4,"places":2,"epoch":1,"epochs_done":1,"epochs":{},)"
      R"("ring":{"epoch":1,"turn":77,"places":[[4,"64"],[9,"32.1"]],"place":1,"next_lane":10,"tails":[[2,"96",3,5]]}})");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->ring, SampleRing());
  EXPECT_EQ(state->places, 2u);
  EXPECT_EQ(state->delivered.epochs_done, Epoch{1});
}

TEST(Position, SaysRowsAsRangesThatPeopleCanRead) {
  const Json json = Json::parse(ToJson(Sample(Position::Kind::kPosition)));
  EXPECT_EQ(json["epochs"]["3"].dump(), R"({"lanes":"0-5","parts":{"6":"0-500,600.2-end"}})");
}

TEST(Position, NamesTheFieldThatIsMissingOrWrong) {
  Json good = Json::parse(ToJson(Sample(Position::Kind::kPart)));
  good["mode"] = "strict";
  good["ring"] = Json::parse(R"({"epoch":1,"turn":7,"places":[[4,"64"]],"place":0,"next_lane":10,"tails":[[2,"96",3,5]]})");
  ASSERT_TRUE(Parse(good).ok()) << Parse(good).status();
  for (const auto& [name, value] : good.items()) {
    Json without = good;
    without.erase(name);
    const bool optional = name == "ended" || name == "seated_at";
    EXPECT_THAT(Parse(without).status().message(), HasSubstr(optional ? "" : "'" + name + "'"));
    EXPECT_EQ(Parse(without).ok(), optional);
    Json odd = good;
    odd[name] = Json::array({-1, "x"});
    EXPECT_THAT(Parse(odd).status().message(), HasSubstr("'" + name + "'"));
  }
  for (const auto& [name, value] : good["ring"].items()) {
    Json odd = good;
    odd["ring"][name] = -1;
    EXPECT_THAT(Parse(odd).status().message(), HasSubstr("'ring." + name + "'"));
  }
}

TEST(Position, RefusesWhatIsInsideTheFieldsAndSaysWhere) {
  const Json good = Json::parse(ToJson(Sample(Position::Kind::kPosition)));
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"([{"op":"replace","path":"/epochs/3/lanes","value":"7-x"}])", "'epochs.3.lanes'"},
      {R"([{"op":"replace","path":"/epochs/3/parts/6","value":"9-3"}])", "'epochs.3.parts.6'"},
      {R"([{"op":"add","path":"/epochs/3/parts/x","value":"0-3"}])", "'epochs.3.parts'"},
      {R"([{"op":"add","path":"/epochs/3/parts/4294967295","value":"0-3"}])", "'epochs.3.parts'"},
      {R"([{"op":"add","path":"/epochs/2","value":{"lanes":"","parts":{}}}])", "'epochs'"},
      {R"([{"op":"replace","path":"/generation","value":4294967296}])", "'generation'"},
      {R"([{"op":"replace","path":"/seed","value":1.5}])", "'seed'"},
      {R"([{"op":"replace","path":"/kind","value":"whole"}])", "'kind'"},
      {R"([{"op":"replace","path":"/mode","value":"strict"}])", "'ring'"},
  };
  for (const auto& [patch, field] : wrong) EXPECT_THAT(Parse(good.patch(Json::parse(patch))).status().message(), HasSubstr(field)) << patch;
}

TEST(Position, OfARingIsCheckedAgainstItsShape) {
  const RingShape shape{.lanes = 12, .group_rows = 8, .mix = 1, .places = 2};
  EXPECT_TRUE(CheckRing(SampleRing(), shape).ok());
  EXPECT_TRUE(CheckRing({}, shape).ok());
  const auto refused = [&](auto change) {
    RingPosition ring = SampleRing();
    change(ring);
    return CheckRing(ring, shape).message();
  };
  EXPECT_THAT(refused([](RingPosition& ring) { ring.next_lane = 13; }), HasSubstr("'ring.next_lane'"));
  EXPECT_THAT(refused([](RingPosition& ring) { ring.ring.push_back({LaneId{5}, {}}); }), HasSubstr("'ring.places'"));
  EXPECT_THAT(refused([](RingPosition& ring) { ring.ring[0].lane = LaneId{9}; }), HasSubstr("'ring.places' name lane 9 twice"));
  EXPECT_THAT(refused([](RingPosition& ring) { ring.tails[0].lane = LaneId{10}; }), HasSubstr("'ring.tails' name lane 10"));
  EXPECT_THAT(refused([](RingPosition& ring) { ring.tails[0].rows = 8; }), HasSubstr("'ring.tails' of lane 2"));
  EXPECT_THAT(CheckRing(SampleRing(), {.lanes = 12, .group_rows = 8, .mix = 2, .places = 2}).message(), HasSubstr("'ring.turn'"));
}

TEST(Position, RefusesAnotherVersionByName) {
  Json json = Json::parse(ToJson(Sample(Position::Kind::kPosition)));
  json["penstock"] = 2;
  EXPECT_EQ(Parse(json).status().code(), Code::kMismatch);
  EXPECT_THAT(Parse(json).status().message(), HasSubstr("version 2"));
}

TEST(Position, IgnoresKeysItDoesNotKnow) {
  Json json = Json::parse(ToJson(Sample(Position::Kind::kPosition)));
  json["later"] = {{"x", 1}};
  ASSERT_TRUE(Parse(json).ok());
  EXPECT_EQ(*Parse(json), Sample(Position::Kind::kPosition));
}

TEST(Position, RefusesWhatIsNoObject) {
  for (const char* text : {"", "null", "[1]", "{", "{\"penstock\":", "\xff"}) EXPECT_FALSE(ParsePosition(text).ok()) << text;
  EXPECT_FALSE(ParsePosition(std::string(1 << 20, '[')).ok());
}

TEST(Position, OfAThousandLanesTakesAFewKilobytes) {
  Position position = Sample(Position::Kind::kPosition);
  position.delivered.epochs.clear();
  // 64 consumers in the middle of four lanes each, the others read or not.
  position.delivered.epochs[Epoch{3}].AddLanes({0, 700});
  for (uint32_t lane = 700; lane < 956; ++lane) position.delivered.Add({Epoch{3}, ReplicaId{}, LaneId{lane}}, {}, {1'234'567 + lane, 0});
  EXPECT_LT(ToJson(position).size(), 8u << 10);
  Position part = Sample(Position::Kind::kPart);  // one of eight consumers, with five epochs behind it
  part.delivered.epochs.clear();
  for (uint32_t epoch = 3; epoch < 8; ++epoch) {
    for (uint32_t lane = 3; lane < 1000; lane += 8) part.delivered.Add({Epoch{epoch}, ReplicaId{}, LaneId{lane}}, {}, kLaneEndCursor);
  }
  EXPECT_LT(ToJson(part).size(), 8u << 10);
}

TEST(History, WithoutWhatPartsDeliveredAndWithIsTheSame) {
  constexpr uint32_t kLanes = 10;
  History done;  // of the dispatcher: epochs 0 and 1 whole, of 2 some
  done.epochs_done = Epoch{2};
  done.epochs[Epoch{2}].AddLanes({0, 4});
  History part;
  part.epochs[Epoch{1}].AddLanes({3, 7});
  part.Add({Epoch{2}, ReplicaId{}, LaneId{1}}, {5, 0}, kLaneEndCursor);
  History rest = done;
  rest.SubtractPart(part, kLanes);
  EXPECT_EQ(rest.epochs_done, Epoch{1});
  EXPECT_EQ(rest.epochs.at(Epoch{1}).ToString(), "0-2,7-9");
  EXPECT_EQ(rest.epochs.at(Epoch{2}).ToString(), "0,2-3 1:0-5");
  rest.MergePart(part);
  rest.Settle(kLanes);
  EXPECT_EQ(rest, done);
}

Plan Over(const Plan& plan, const char* op, int64_t n) {
  AttrMap attrs;
  attrs.Set("n", n);
  return Plan::Over({plan}, op, attrs);
}

TEST(RowsFingerprint, IsTheSameForAnotherBatchSizeAndAnotherForOtherRows) {
  const Plan rows = Over(Plan::Over({}, "range", {}), "skip", 3);
  const auto of = [](const Plan& plan) { return *RowsFingerprint(plan); };
  EXPECT_EQ(of(Over(rows, "batch", 4)), of(rows));
  EXPECT_EQ(of(Over(rows, "padded_batch", 8)), of(rows));
  EXPECT_EQ(of(Over(Over(rows, "batch", 4), "repeat", 2)), of(Over(Over(rows, "batch", 5), "repeat", 2)));
  EXPECT_NE(of(Over(Over(rows, "batch", 4), "batch", 2)), of(Over(Over(rows, "batch", 5), "batch", 2)));
  EXPECT_NE(of(Over(rows, "batch", 4)), of(Over(Over(rows, "skip", 1), "batch", 4)));
  EXPECT_NE(of(Over(Over(rows, "batch", 4), "shuffle", 9)), of(Over(Over(rows, "batch", 5), "shuffle", 9)));
  EXPECT_FALSE(RowsFingerprint(Plan{}).ok());
  EXPECT_TRUE(RowsFingerprint(Plan::Over({}, "repeat", {})).ok());
}

}  // namespace
}  // namespace penstock
