#include "storage/permit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PermitTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(inside_);
    fs::create_directories(root_ / "outside");
    std::ofstream(inside_ / "a") << "a";
    std::ofstream(root_ / "outside" / "secret") << "b";
    fs::create_symlink(root_ / "outside" / "secret", inside_ / "link");
    fs::create_symlink(root_ / "outside", inside_ / "directory");
    fs::create_symlink(inside_, root_ / "alias");
    ASSERT_TRUE(PermitOnly({inside_.string()}).ok());
  }
  void TearDown() override {
    ASSERT_TRUE(PermitOnly({}).ok());
    fs::remove_all(root_);
  }
  Status List(const std::string& pattern) { return ListFiles(std::vector{pattern}).status(); }

  const fs::path root_ = fs::path(testing::TempDir()) / ("permit-" + std::to_string(getpid()));
  const fs::path inside_ = root_ / "data";
};

TEST_F(PermitTest, FilesBelowThePrefixAreRead) {
  EXPECT_TRUE(File::Open((inside_ / "a").string()).ok());
  EXPECT_TRUE(File::Open("file://" + (inside_ / "a").string()).ok());
  EXPECT_TRUE(File::Open((inside_ / ".." / "data" / "a").string()).ok());
  EXPECT_TRUE(List((inside_ / "[a]").string()).ok());
}

TEST_F(PermitTest, NoNameLeadsOutside) {
  for (const std::string& name : {(root_ / "outside" / "secret").string(), (inside_ / ".." / "outside" / "secret").string(),
                                  (inside_ / "link").string(), (inside_ / "directory" / "secret").string(), "file://" + (inside_ / "link").string(),
                                  "file://" + inside_.string() + "/../outside/secret", inside_.string() + "-beside"}) {
    const Status opened = File::Open(name).status();
    EXPECT_EQ(opened.code(), Code::kPermission) << name << ": " << opened;
    EXPECT_THAT(opened.message(), HasSubstr("--allow-path"));
    EXPECT_EQ(StatFile(name).status().code(), Code::kPermission) << name;
    EXPECT_EQ(List(name).code(), Code::kPermission) << name;
  }
  EXPECT_EQ(List((inside_ / "*").string()).code(), Code::kPermission) << "a pattern that meets a link";
  EXPECT_EQ(List((inside_ / "*" / ".." / ".." / "outside" / "*").string()).code(), Code::kPermission);
}

TEST_F(PermitTest, ARefusalDoesNotTellWhatExists) {
  EXPECT_EQ(List((root_ / "outside" / "no-such-file").string()).code(), Code::kPermission);
  EXPECT_EQ(File::Open((root_ / "outside" / "no-such-file").string()).status().code(), Code::kPermission);
}

TEST_F(PermitTest, ALinkThatLeadsOutIsCalledALinkWhetherThereIsSomethingOrNot) {
  fs::create_symlink(root_ / "outside" / "no-such-file", inside_ / "nothing");
  const auto refusal = [&](const char* name) {
    const std::string path = (inside_ / name).string();
    std::string text(CheckPermitted(path).message());
    return text.replace(text.find(path), path.size(), "NAME");
  };
  EXPECT_THAT(refusal("link"), HasSubstr("NAME: a link in it leads out of what the worker was started with, --allow-path " + inside_.string()));
  EXPECT_EQ(refusal("link"), refusal("nothing"));
  EXPECT_THAT(refusal("link"), testing::Not(HasSubstr("secret")));
}

TEST_F(PermitTest, AnAllowedPathMayBeALinkItself) {
  ASSERT_TRUE(PermitOnly({(root_ / "alias").string() + "/"}).ok());
  EXPECT_TRUE(File::Open((root_ / "alias" / "a").string()).ok());
  EXPECT_TRUE(File::Open((inside_ / "a").string()).ok());
}

TEST_F(PermitTest, AnAllowedPathThatIsNotThereIsAnError) { EXPECT_THAT(PermitOnly({(root_ / "nowhere").string()}).message(), HasSubstr("nowhere")); }

}  // namespace
}  // namespace penstock
