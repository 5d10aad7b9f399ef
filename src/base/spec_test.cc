#include "penstock/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "penstock/layout.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Spec, PrintsItsStructure) {
  EXPECT_EQ(ToString(DictSpec({{"id", DType::kInt64, {}}, {"ids", DType::kInt64, {kRagged}}})), "{id: int64[], ids: int64[ragged]}");
  EXPECT_EQ(ToString(TupleOf({LeafSpec(DType::kFloat32, {2, 3}), DictSpec({{"s", DType::kString, {}}})})), "(float32[2, 3], {s: string[]})");
}

TEST(Spec, ATupleNamesColumnsByPosition) {
  const Spec spec = TupleOf({LeafSpec(DType::kInt8, {}), DictSpec({{"a", DType::kInt8, {}}})});
  EXPECT_EQ(spec.columns[0].name, "0");
  EXPECT_EQ(spec.columns[1].name, "1/a");
}

TEST(Spec, AStringIsOneMoreRaggedLevel) {
  EXPECT_EQ(RaggedLevels({"", DType::kString, {kRagged, 3}}), 2u);
  EXPECT_EQ(BufferCount({"", DType::kFloat32, {3}}), 1u);
}

TEST(Spec, KnowsEveryDTypeByName) {
  for (int i = 1; i <= static_cast<int>(DType::kString); ++i) {
    const auto dtype = static_cast<DType>(i);
    ASSERT_TRUE(DTypeFromName(Name(dtype)).ok());
    EXPECT_EQ(*DTypeFromName(Name(dtype)), dtype);
    EXPECT_GT(SizeOf(dtype), 0u);
  }
  EXPECT_THAT(DTypeFromName("float8").status().message(), HasSubstr("'float8'; known are bool"));
}

TEST(CheckSpec, AcceptsWhatTheBuildersMake) {
  EXPECT_TRUE(CheckSpec(TupleOf({LeafSpec(DType::kInt8, {0, kRagged}), DictSpec({{"a", DType::kString, {}}})})).ok());
}

TEST(CheckSpec, RefusesWhatDoesNotFitTogether) {
  Spec no_leaf = LeafSpec(DType::kInt8, {});
  no_leaf.columns.push_back({"more", DType::kInt8, {}});
  EXPECT_THAT(CheckSpec(no_leaf).message(), HasSubstr("1 leaves for 2 columns"));
  EXPECT_THAT(CheckSpec(LeafSpec(static_cast<DType>(99), {})).message(), HasSubstr("dtype number 99"));
  EXPECT_THAT(CheckSpec(LeafSpec(DType::kInt8, {-2})).message(), HasSubstr("dimension of -2"));
  EXPECT_THAT(CheckSpec(LeafSpec(DType::kInt8, {1LL << 30, 1LL << 30})).message(), HasSubstr("too many values"));
  EXPECT_THAT(CheckSpec(LeafSpec(DType::kFloat32, {1LL << 36})).message(), HasSubstr("over the cap of a block"));
  EXPECT_THAT(CheckSpec(LeafSpec(DType::kString, {1LL << 31})).message(), HasSubstr("over the cap of a block"));
  EXPECT_THAT(CheckSpec(DictSpec({{"a", DType::kInt8, {}}, {"a", DType::kInt8, {}}})).message(), HasSubstr("'a' stands twice"));
  EXPECT_THAT(CheckSpec(Spec{}).message(), HasSubstr("at least one column"));
}

TEST(Layout, ModesHaveTheNamesOfTfDataService) {
  EXPECT_EQ(*ModeFromName("distributed_epoch"), Mode::kShared);
  EXPECT_EQ(*ModeFromName("DYNAMIC"), Mode::kShared);
  EXPECT_EQ(*ModeFromName("parallel_epochs"), Mode::kReplicated);
  EXPECT_EQ(*ModeFromName("OFF"), Mode::kReplicated);
  EXPECT_EQ(*ModeFromName("coordinated"), Mode::kStrict);
  for (const char* policy : {"FILE", "DATA", "FILE_OR_DATA", "HINT"}) EXPECT_EQ(*ModeFromName(policy), Mode::kSharded) << policy;
  EXPECT_THAT(ModeFromName("sharde").status().message(), HasSubstr("'sharde'; known are shared"));
  EXPECT_THAT(ModeFromName("bogus").status().message(), Not(HasSubstr("sharded"))) << "which is refused";
}

TEST(Layout, EveryModeFindsItselfByName) {
  for (Mode mode : {Mode::kShared, Mode::kStrict, Mode::kReplicated, Mode::kSharded}) EXPECT_EQ(*ModeFromName(Name(mode)), mode);
  EXPECT_EQ(*EvenFromName("uneven"), Even::kUneven);
  EXPECT_THAT(EvenFromName("odd").status().message(), HasSubstr("auto, drop, pad, uneven"));
}

TEST(Sha256, GivesTheKnownAnswer) { EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); }

}  // namespace
}  // namespace penstock
