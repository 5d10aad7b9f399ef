#include "plan/difference.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::string_literals;

Plan Numbers(int64_t stop) {
  AttrMap attrs;
  attrs.Set("stop", stop);
  return Plan::Over({}, "range", std::move(attrs));
}

Plan With(const Plan& input, std::string op, std::string name, AttrValue value) {
  AttrMap attrs;
  attrs.Set(std::move(name), std::move(value));
  return Plan::Over({input}, std::move(op), std::move(attrs));
}

std::string Words(const Plan& a, const Plan& b) { return Difference(a, b, "in the job", "here"); }

TEST(PlanDifference, IsNothingBetweenEqualPlans) { EXPECT_EQ(Words(Numbers(5), Numbers(5)), ""); }

TEST(PlanDifference, NamesOperatorAttributeAndBothValues) {
  EXPECT_EQ(Words(With(Numbers(5), "batch", "n", int64_t{16}), With(Numbers(5), "batch", "n", int64_t{32})),
            "operator 2 (batch) has n 16 in the job and 32 here");
}

TEST(PlanDifference, NamesAnOperatorThatIsAnotherOrThatOnlyOneHas) {
  const Plan batched = With(Numbers(5), "batch", "n", int64_t{1});
  EXPECT_EQ(Words(batched, With(Numbers(5), "take", "count", int64_t{1})), "operator 2 is batch in the job and take here");
  EXPECT_EQ(Words(batched, Numbers(5)), "batch is only in the job");
  EXPECT_EQ(Words(Numbers(5), batched), "batch is only here");
}

TEST(PlanDifference, NamesAnAttributeThatOneLeavesOut) {
  AttrMap seeded;
  seeded.Set("buffer_size", int64_t{4});
  seeded.Set("seed", int64_t{7});
  EXPECT_EQ(Words(With(Numbers(5), "shuffle", "buffer_size", int64_t{4}), Plan::Over({Numbers(5)}, "shuffle", seeded)),
            "operator 2 (shuffle) has seed nothing in the job and 7 here");
}

TEST(PlanDifference, FindsTheEntryOfAListThatDiffers) {
  const auto features = [](const std::string& dtype) {
    AttrMap feature;
    feature.Set("dtype", dtype);
    return std::vector<AttrMap>{feature};
  };
  EXPECT_EQ(
      Words(With(Numbers(5), "parse_example", "features", features("int64")), With(Numbers(5), "parse_example", "features", features("string"))),
      "operator 2 (parse_example) has features[0].dtype 'int64' in the job and 'string' here");
}

TEST(PlanDifference, ShowsNoContentOfBytesAndCutsWhatIsLong) {
  const auto code = [](const std::string& content) { return Bytes(std::make_shared<const std::string>(content)); };
  EXPECT_EQ(Words(With(Numbers(5), "map", "payload", code("ab")), With(Numbers(5), "map", "payload", code("cd"))),
            "operator 2 (map) has payload of another content (2 bytes) in the job than here");
  const auto told = [&](const std::string& content, const std::string& digest) {
    AttrMap attrs;
    attrs.Set("payload", code(content));
    attrs.Set("payload_digest", digest);
    return Plan::Over({Numbers(5)}, "map", std::move(attrs));
  };
  EXPECT_EQ(Words(told("ab", "1"), told("cd", "2")), "operator 2 (map) has payload_digest '1' in the job and '2' here");
  const std::string words = Words(With(Numbers(5), "x", "text", std::string(1000, 'a')), With(Numbers(5), "x", "text", "b"s));
  EXPECT_LT(words.size(), 200u);
}

}  // namespace
}  // namespace penstock
