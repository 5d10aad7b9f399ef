#include "penstock/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "penstock/manifest.h"
#include "plan/attrs.h"
#include "plan/check.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

AttrMap Attrs(std::vector<Attr> items) {
  AttrMap attrs;
  for (Attr& item : items) attrs.Set(std::move(item.name), std::move(item.value));
  return attrs;
}

Plan Range(int64_t stop) { return Plan::Over({}, "range", Attrs({{"stop", stop}})); }

Plan Everything() {
  AttrMap feature = Attrs({{"name", std::string("a")}, {"default", std::vector<double>{0.5, -1}}});
  return Plan::Over({Range(10), Range(20)}, "zip",
                    Attrs({{"bool", true},
                           {"int", int64_t{-3}},
                           {"float", 2.5},
                           {"string", std::string("\0\xff", 2)},
                           {"ints", std::vector<int64_t>{1, -2}},
                           {"strings", std::vector<std::string>{"x", "", "y"}},
                           {"bytes", std::make_shared<const std::string>("blob")},
                           {"maps", std::vector<AttrMap>{feature, {}}}}));
}

TEST(AttrMap, KeepsNamesSortedAndReplaces) {
  AttrMap attrs = Attrs({{"b", int64_t{1}}, {"a", int64_t{2}}, {"b", int64_t{3}}});
  ASSERT_EQ(attrs.items.size(), 2u);
  EXPECT_EQ(attrs.items[0].name, "a");
  EXPECT_EQ(std::get<int64_t>(*attrs.Find("b")), 3);
  EXPECT_EQ(attrs.Find("c"), nullptr);
}

TEST(Plan, OverJoinsGraphs) {
  const Plan plan = Plan::Over({Plan::Over({Range(1)}, "take", {}), Plan::Over({Range(2)}, "skip", {})}, "concatenate", {});
  ASSERT_EQ(plan.nodes.size(), 5u);
  EXPECT_EQ(plan.nodes[3].inputs, std::vector<uint32_t>{2});
  EXPECT_EQ(plan.nodes[4].inputs, (std::vector<uint32_t>{1, 3}));
  EXPECT_TRUE(CheckGraph(plan).ok());
}

TEST(Plan, OverSharesEqualSubGraphs) {
  const Plan plan = Plan::Over({Range(1), Plan::Over({Range(1)}, "skip", {})}, "zip", {});
  ASSERT_EQ(plan.nodes.size(), 3u);
  EXPECT_EQ(plan.nodes[2].inputs, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(Plan::Over({Range(1), Range(1)}, "zip", {}).nodes.back().inputs, (std::vector<uint32_t>{0, 0}));
}

TEST(Plan, OverAnEmptyPlanIsRefusedWhenItIsUsed) {
  EXPECT_EQ(Fingerprint(Plan::Over({Plan{}}, "take", {})).status().code(), Code::kInvalid);
  EXPECT_EQ(Fingerprint(Plan::Over({Range(1), Plan{}}, "zip", {})).status().code(), Code::kInvalid);
}

TEST(Plan, SerializesAndParsesToTheSame) {
  const Plan plan = Everything();
  const auto parsed = ParsePlan(SerializePlan(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*Fingerprint(*parsed), *Fingerprint(plan));
  EXPECT_EQ(SerializePlan(*parsed), SerializePlan(plan));
}

TEST(Plan, ParsesFromAnyAddress) {
  const std::string bytes = "x" + SerializePlan(Everything());
  EXPECT_TRUE(ParsePlan(std::string_view(bytes).substr(1)).ok());
}

TEST(Fingerprint, IsTheSameOnEveryMachineAndInEveryVersion) {
  EXPECT_EQ(*Fingerprint(Range(10)), "f2fcd474d802fe7c88855df3507f1f7c");
  EXPECT_EQ(*Fingerprint(Everything()), "771b89fce24c35ac9b219d80e78fa047");
}

TEST(Fingerprint, IsOfTheDigestWhereAnAttributeHasOne) {
  const auto of = [](const std::string& code, const std::string& digest) {
    const auto content = Bytes(std::make_shared<const std::string>(code));
    return *Fingerprint(Plan::Over({}, "map", Attrs({{"payload", content}, {"payload_digest", digest}})));
  };
  EXPECT_EQ(of("as pickled here", "1"), of("as pickled there", "1"));
  EXPECT_NE(of("as pickled here", "1"), of("as pickled here", "2"));
}

TEST(Fingerprint, DiffersInEveryAttributeAndItsType) {
  const auto of = [](AttrValue value) { return *Fingerprint(Plan::Over({}, "op", Attrs({{"a", std::move(value)}}))); };
  EXPECT_NE(of(int64_t{1}), of(int64_t{2}));
  EXPECT_NE(of(int64_t{1}), of(true));
  EXPECT_NE(of(std::string("a")), of(std::make_shared<const std::string>("a")));
  EXPECT_NE(of(std::vector<std::string>{"ab", "c"}), of(std::vector<std::string>{"a", "bc"}));
}

TEST(ParsePlan, RefusesDamagedBytes) {
  const std::string good = SerializePlan(Everything());
  EXPECT_FALSE(ParsePlan("").ok());
  EXPECT_FALSE(ParsePlan("garbage that is no plan").ok());
  for (size_t length = 0; length < good.size() / 2; length += 3) EXPECT_FALSE(ParsePlan(good.substr(0, length)).ok()) << length;
}

TEST(ParsePlan, NeverReadsOutOfBoundsOfDamagedBytes) {
  const std::string good = SerializePlan(Everything());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << RandomStream({}).At(at).Below(8)));
    const auto parsed = ParsePlan(bad);
    EXPECT_TRUE(!parsed.ok() || CheckGraph(*parsed).ok());
  }
}

TEST(ParsePlan, RefusesAGraphThatIsNotInOrder) {
  Plan plan = Range(1);
  plan.nodes[0].inputs = {0};
  EXPECT_THAT(ParsePlan(SerializePlan(plan)).status().message(), HasSubstr("node 0 (range) of the plan takes node 0"));
  plan.nodes.clear();
  EXPECT_THAT(ParsePlan(SerializePlan(plan)).status().message(), HasSubstr("empty"));
  plan = Range(1);
  plan.nodes.push_back(plan.nodes[0]);
  EXPECT_THAT(ParsePlan(SerializePlan(plan)).status().message(), HasSubstr("used by none"));
}

TEST(ParsePlan, RefusesAttributesNestedTooDeep) {
  AttrMap attrs;
  for (size_t i = 0; i <= kMaxAttrDepth; ++i) attrs = Attrs({{"a", std::vector<AttrMap>{attrs}}});
  EXPECT_THAT(ParsePlan(SerializePlan(Plan::Over({}, "op", attrs))).status().message(), HasSubstr("nested deeper"));
  for (size_t i = 0; i < 100; ++i) attrs = Attrs({{"a", std::vector<AttrMap>{attrs}}});
  EXPECT_FALSE(ParsePlan(SerializePlan(Plan::Over({}, "op", attrs))).ok());
}

TEST(Manifest, SerializesAndParsesToTheSame) {
  const Manifest manifest{{{.node = 0, .files = {{"/a", 10, 20, "", -1}, {"/b", 1ULL << 40, -5, "tag", 7}}}, {.node = 3, .files = {}}}};
  const std::string bytes = SerializeManifest(manifest);
  const auto parsed = ParseManifest(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, manifest);
  EXPECT_EQ(HashManifest(bytes), HashManifest(SerializeManifest(*parsed)));
  EXPECT_EQ(HashManifest(bytes).size(), 32u);
}

TEST(Manifest, FilesOfAListingAreNotPartOfIt) {
  const InputFile listing{"/listing", 10, 20, "", -1};
  const Manifest manifest{{{.node = 0, .files = {{"/a", 10, 20, "", -1}}, .listing = listing}}};
  const auto parsed = ParseManifest(SerializeManifest(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->sources[0].listing, listing);
  EXPECT_TRUE(parsed->sources[0].files.empty());
}

TEST(Manifest, RefusesDamagedBytes) {
  const std::string good = SerializeManifest({{{.node = 1, .files = {{"/path", 1, 2, "e", 3}}}}});
  for (size_t length = 0; length < good.size() / 2; ++length) EXPECT_FALSE(ParseManifest(good.substr(0, length)).ok()) << length;
  EXPECT_THAT(ParseManifest(SerializeManifest({{{.node = 1, .files = {{"", 1, 2, "", 3}}}}})).status().message(), HasSubstr("without a path"));
}

TEST(AttrReader, ReadsWhatIsThereAndDefaults) {
  const AttrMap attrs = Attrs({{"n", int64_t{4}}, {"rate", int64_t{2}}, {"names", std::vector<int64_t>{}}});
  AttrReader reader("batch", attrs);
  EXPECT_EQ(*reader.IntFrom("n", 1), 4);
  EXPECT_EQ(*reader.Float("rate"), 2.0);
  EXPECT_TRUE(reader.Strings("names")->empty());
  EXPECT_EQ(*reader.Bool("drop", true), true);
  EXPECT_TRUE(reader.Done().ok());
}

TEST(AttrReader, NamesOperatorAttributeAndWhatWasExpected) {
  const AttrMap attrs = Attrs({{"n", std::string("four")}, {"m", int64_t{0}}});
  AttrReader reader("batch", attrs);
  EXPECT_EQ(reader.Int("n").status().message(), "batch: attribute 'n' must be an int, not a string");
  EXPECT_EQ(reader.Int("k").status().message(), "batch needs the attribute 'k' (an int)");
  EXPECT_EQ(reader.IntFrom("m", 1).status().message(), "batch: attribute 'm' must be at least 1, not 0");
}

TEST(AttrReader, RefusesWhatNobodyAskedFor) {
  const AttrMap attrs = Attrs({{"drop_remainer", true}, {"n", int64_t{1}}});
  AttrReader reader("batch", attrs);
  EXPECT_TRUE(reader.Int("n").ok());
  EXPECT_TRUE(reader.Bool("drop_remainder", false).ok());
  EXPECT_EQ(reader.Done().message(), "batch has no attribute 'drop_remainer'; it has n, drop_remainder");
}

}  // namespace
}  // namespace penstock
