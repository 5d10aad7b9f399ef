#include "cluster/nodelist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace penstock::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Expanded(std::string_view text) {
  const auto hosts = ExpandNodelist(text);
  EXPECT_TRUE(hosts.ok()) << text << ": " << hosts.status();
  return hosts.ok() ? *hosts : std::vector<std::string>();
}

TEST(Nodelist, APlainListIsItself) {
  EXPECT_THAT(Expanded("login"), ElementsAre("login"));
  EXPECT_THAT(Expanded("b,a.example.org,gpu-0_x"), ElementsAre("b", "a.example.org", "gpu-0_x"));
}

TEST(Nodelist, RangesKeepTheWidthOfTheirFirstNumber) {
  EXPECT_THAT(Expanded("n[01-03]"), ElementsAre("n01", "n02", "n03"));
  EXPECT_THAT(Expanded("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(Expanded("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(Expanded("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(Expanded("n[000]"), ElementsAre("n000"));
}

TEST(Nodelist, SeveralBracketsMultiplyAndTheRightmostRunsFastest) {
  EXPECT_THAT(Expanded("rack[0-1]n[01-02,7],login"), ElementsAre("rack0n01", "rack0n02", "rack0n7", "rack1n01", "rack1n02", "rack1n7", "login"));
  EXPECT_THAT(Expanded("[1-2][3-4]"), ElementsAre("13", "14", "23", "24"));
}

TEST(Nodelist, TextMayFollowABracket) { EXPECT_THAT(Expanded("n[1-2]-ib0,m[3].cluster"), ElementsAre("n1-ib0", "n2-ib0", "m3.cluster")); }

TEST(Nodelist, AFaultIsNamedWithItsPosition) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"", "a host at character 1"},
      {",a", "a host at character 1"},
      {"a,,b", "a host at character 3"},
      {"a,", "a host after the comma at character 3"},
      {"n[1-3", "a ']' for the '[' at character 2"},
      {"n[]", "a number at character 3"},
      {"n[1-]", "a number at character 5"},
      {"n[-3]", "a number at character 3"},
      {"n[1,]", "a number at character 5"},
      {"n[3-1]", "from the lower to the higher number at character 3"},
      {"n[1-2]]", "at character 7"},
      {"n[a-b]", "a number at character 3"},
      {"n[1-2-3]", "',', '-' or ']' at character 6"},
      {"n[000x133]", "at character 6"},
      {"n [1-2]", "at character 2"},
      {"n[1234567890123456789]", "at most 18 digits"},
  };
  for (const auto& [text, message] : faults) {
    const Status all = ExpandNodelist(text).status();
    EXPECT_EQ(all.code(), Code::kInvalid) << text;
    EXPECT_THAT(all.message(), HasSubstr(message)) << text;
    EXPECT_EQ(FirstNode(text).status(), all) << text;
  }
}

TEST(Nodelist, ALargeListIsRefusedBeforeItIsExpanded) {
  EXPECT_EQ(ExpandNodelist("n[0-999999999999999999]").status().code(), Code::kTooLarge);
  EXPECT_EQ(ExpandNodelist("a[1-99999]b[1-99999]c[1-99999]d[1-99999]").status().code(), Code::kTooLarge);
  EXPECT_EQ(ExpandNodelist("a[1-3],b[1-3]", 5).status().code(), Code::kTooLarge);
  EXPECT_EQ(ExpandNodelist("a[1-3],b[1-3]", 6)->size(), 6u);
  EXPECT_EQ(ExpandNodelist("n[1-65536]")->size(), 65'536u);
  EXPECT_EQ(ExpandNodelist(std::string((size_t{1} << 20) + 1, 'a')).status().code(), Code::kTooLarge);
}

TEST(Nodelist, AHostThatIsTooLongIsRefused) {
  std::string brackets;
  for (int i = 0; i < 100'000; ++i) brackets += "[1]";
  EXPECT_EQ(ExpandNodelist(brackets).status().code(), Code::kInvalid);
  EXPECT_EQ(FirstNode(brackets).status().code(), Code::kInvalid);
}

TEST(Nodelist, TheFirstNodeOfAListOfAnySizeIsKnown) {
  EXPECT_EQ(*FirstNode("n[000-999999999999]x[7,3]"), "n000x7");
  EXPECT_EQ(*FirstNode("nid00001"), "nid00001");
}

// A list and, independently, the hosts it stands for.
struct Sample {
  std::string text;
  std::vector<std::string> hosts;
};

class SampleMaker {
 public:
  explicit SampleMaker(uint32_t seed) : random_(seed) {}

  Sample List() {
    Sample list;
    for (uint32_t items = 1 + Below(3); items > 0; --items) {
      Sample item = Item();
      list.text += (list.text.empty() ? "" : ",") + item.text;
      list.hosts.insert(list.hosts.end(), item.hosts.begin(), item.hosts.end());
    }
    return list;
  }

 private:
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  Sample Item() {
    Sample item{"h", {"h"}};
    for (uint32_t parts = 1 + Below(4); parts > 0; --parts) {
      const Sample part = Below(2) == 0 ? Sample{"-x", {"-x"}} : Bracket();
      std::vector<std::string> longer;
      for (const std::string& head : item.hosts) {
        for (const std::string& tail : part.hosts) longer.push_back(head + tail);
      }
      item = {item.text + part.text, std::move(longer)};
    }
    return item;
  }

  Sample Bracket() {
    Sample bracket{"[", {}};
    for (uint32_t ranges = 1 + Below(3); ranges > 0; --ranges) {
      const uint32_t first = Below(120);
      const uint32_t last = first + Below(4);
      const int width = static_cast<int>(Below(5));
      bracket.text += (bracket.hosts.empty() ? "" : ",") + Digits(first, width) + (first == last ? "" : "-" + Digits(last, width));
      for (uint32_t number = first; number <= last; ++number) bracket.hosts.push_back(Digits(number, width));
    }
    bracket.text += "]";
    return bracket;
  }

  static std::string Digits(uint32_t number, int width) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*u", width, number);
    return text;
  }

  std::mt19937 random_;
};

TEST(Nodelist, AnyListExpandsToWhatItWasMadeOf) {
  SampleMaker maker(7);
  for (int i = 0; i < 2'000; ++i) {
    const Sample sample = maker.List();
    ASSERT_EQ(Expanded(sample.text), sample.hosts) << sample.text;
    ASSERT_EQ(*FirstNode(sample.text), sample.hosts.front()) << sample.text;
  }
}

TEST(Nodelist, AnyBytesAreReadOrRefusedAndAllWaysAgree) {
  std::mt19937 random(11);
  const std::string_view alphabet = "a0[]-,19_x ";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t length = random() % 14; length > 0; --length) text += alphabet[random() % alphabet.size()];
    const auto hosts = ExpandNodelist(text);
    const auto first = FirstNode(text);
    if (hosts.ok()) {
      ASSERT_FALSE(hosts->empty()) << text;
      ASSERT_EQ(*first, hosts->front()) << text;
    } else if (hosts.status().code() == Code::kInvalid) {
      ASSERT_FALSE(first.ok()) << text;
    }
  }
}

}  // namespace
}  // namespace penstock::cluster
