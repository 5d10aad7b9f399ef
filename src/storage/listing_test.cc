#include "storage/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "storage/file.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class ListingTest : public ::testing::Test {
 protected:
  ListingTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock_listing_test_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~ListingTest() override { std::filesystem::remove_all(directory_); }

  InputFile Write(std::string_view text) {
    const std::string path = directory_ + "/listing";
    std::ofstream(path, std::ios::binary) << text;
    const auto info = StatFile(path);
    EXPECT_TRUE(info.ok()) << info.status();
    return *info;
  }
  std::string ErrorOf(std::string_view text) { return ReadListing(Write(text)).status().message(); }

  std::string directory_;
};

TEST(ListingLine, HasPathSizeAndTimeToTheNanosecond) {
  EXPECT_EQ(*ParseListingLine("/data/a\t12\t1700000000.1234567890"), (InputFile{"/data/a", 12, 1700000000123456789, "", -1}));
  EXPECT_EQ(ParseListingLine("/data/a\t12\t1700000000")->mtime_ns, 1700000000000000000);
  EXPECT_EQ(ParseListingLine("/data/a\t12\t1700000000.5")->mtime_ns, 1700000000500000000);
  EXPECT_EQ(ParseListingLine("/with\ttab\t1\t2")->path, "/with\ttab");
}

TEST_F(ListingTest, KeepsItsOrderAndPutsRelativePathsBesideIt) {
  const auto files = ReadListing(Write("/z\t1\t2\nb/c\t3\t4\n\n/a\t5\t6"));
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 3U);
  EXPECT_EQ((*files)[0].path, "/z");
  EXPECT_EQ((*files)[1].path, directory_ + "/b/c");
  EXPECT_EQ((*files)[2].path, "/a");
}

TEST_F(ListingTest, ABadLineIsNamedByItsNumber) {
  EXPECT_THAT(ErrorOf("/a\t1\t2\n/b\t1\n"), HasSubstr("line 2 of the listing " + directory_ + "/listing: it does not have three parts"));
  EXPECT_THAT(ErrorOf("/a\tone\t2\n"), HasSubstr("its size 'one' is no number"));
  EXPECT_THAT(ErrorOf("/a\t-1\t2\n"), HasSubstr("its size '-1' is no number"));
  EXPECT_THAT(ErrorOf("/a\t9223372036854775807\t2\n"), HasSubstr("is more than any file has"));
  EXPECT_THAT(ErrorOf("/a\t1\tnoon\n"), HasSubstr("its time 'noon' is no number of seconds"));
  EXPECT_THAT(ErrorOf("/a\t1\t\n"), HasSubstr("its time '' is no number of seconds"));
  EXPECT_THAT(ErrorOf("\t1\t2\n"), HasSubstr("its path is empty"));
  EXPECT_THAT(ErrorOf("\n"), HasSubstr("names no file"));
}

TEST_F(ListingTest, OneThatChangedIsRefused) {
  const InputFile before = Write("/a\t1\t2\n");
  Write("/a\t1\t2\n/b\t1\t2\n");
  EXPECT_THAT(ReadListing(before).status().message(), HasSubstr("changed after the job started"));
}

}  // namespace
}  // namespace penstock
