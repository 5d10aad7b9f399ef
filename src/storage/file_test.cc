#include "storage/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace penstock {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock_file_test_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { std::filesystem::remove_all(directory_); }

  std::string Make(const std::string& name, std::string_view content) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::vector<std::string> List(const std::vector<std::string>& patterns) {
    std::vector<std::string> names;
    const auto files = ListFiles(patterns);
    EXPECT_TRUE(files.ok()) << files.status();
    for (const InputFile& file : *files) names.push_back(std::filesystem::path(file.path).filename());
    return names;
  }

  std::string directory_;
};

TEST_F(FileTest, AUriIsAPathOrFile) {
  EXPECT_EQ(*LocalPath("/a/b"), "/a/b");
  EXPECT_EQ(*LocalPath("file:///a/b"), "/a/b");
  EXPECT_THAT(LocalPath("s3://bucket/x").status().message(), HasSubstr("the scheme 's3' is not supported; use a path or file:///path"));
  EXPECT_EQ(*LocalPath("file://localhost/data/x"), "/data/x");
  EXPECT_THAT(LocalPath("file://localhost.example/x").status().message(), HasSubstr("another host"));
  EXPECT_THAT(LocalPath("file://host/x").status().message(), HasSubstr("another host"));
  EXPECT_FALSE(LocalPath("").ok());
}

TEST_F(FileTest, ListsGlobsSortedAndEachFileOnce) {
  for (const char* name : {"b.rec", "a.rec", "c.txt", "odd[1].rec"}) Make(name, "x");
  EXPECT_EQ(List({directory_ + "/*.rec", directory_ + "/a.rec"}), (std::vector<std::string>{"a.rec", "b.rec", "odd[1].rec"}));
  EXPECT_EQ(List({directory_ + "/odd[1].rec"}), std::vector<std::string>{"odd[1].rec"});
  EXPECT_EQ(List({"file://" + directory_ + "/?.txt"}), std::vector<std::string>{"c.txt"});
}

TEST_F(FileTest, AnEmptyGlobAMissingFileAndADirectoryAreErrorsByName) {
  const auto list = [](const std::string& pattern) { return ListFiles(std::vector<std::string>{pattern}).status(); };
  EXPECT_EQ(list(directory_ + "/*.rec"), Status(Code::kNotFound, "no file matches " + directory_ + "/*.rec").With("file", directory_ + "/*.rec"));
  EXPECT_EQ(list(directory_ + "/none").code(), Code::kNotFound);
  EXPECT_THAT(list(directory_ + "/none").message(), HasSubstr(directory_ + "/none: No such file"));
  EXPECT_THAT(list(directory_).message(), HasSubstr("is a directory: name its files"));
  EXPECT_FALSE(ListFiles({}).ok());
}

TEST_F(FileTest, ReadsAtAnyOffset) {
  const auto file = File::Open(Make("data", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> out(4);
  EXPECT_EQ(*(*file)->ReadAt(3, out), 4u);
  EXPECT_EQ(static_cast<char>(out[0]), '3');
  EXPECT_EQ(*(*file)->ReadAt(8, out), 2u);
  EXPECT_EQ(*(*file)->ReadAt(99, out), 0u);
}

TEST_F(FileTest, StreamsAndSkipsForward) {
  SourceStream stream(*File::Open(Make("data", "0123456789")));
  std::vector<std::byte> out(4);
  EXPECT_EQ(*stream.Read(out), 4u);
  EXPECT_EQ(*stream.Skip(2), 2u);
  EXPECT_EQ(*stream.Read(out), 4u);
  EXPECT_EQ(static_cast<char>(out[0]), '6');
  EXPECT_EQ(*stream.Skip(9), 0u);
  EXPECT_EQ(*stream.Read(out), 0u);
}

TEST_F(FileTest, AFileThatChangedSinceTheManifestIsRefused) {
  const std::string path = Make("data", "0123");
  const InputFile before = *StatFile(path);
  EXPECT_TRUE(File::Open(before).ok());
  Make("data", "01234");
  const Status status = File::Open(before).status();
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_THAT(status.message(), HasSubstr(path + " changed after the job started, or is not as a listing says: it had 4 bytes"));
  EXPECT_EQ(status.detail("file"), path);
}

TEST_F(FileTest, AFileThatIsGoneSinceTheManifestIsNamedWithWhatToDo) {
  const std::string path = Make("data", "0123");
  const InputFile before = *StatFile(path);
  std::filesystem::remove(path);
  const Status status = File::Open(before).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(path + " is gone since the job started"));
  EXPECT_EQ(status.detail("file"), path);
}

// While one lives, no more descriptors can be had.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_F(FileTest, WithoutDescriptorsToOpenItAFileIsNotTakenForDamaged) {
  const std::string path = Make("data", "0123");
  Status status;
  {
    const NoDescriptors none;
    status = File::Open(path).status();
  }
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_THAT(status.message(), HasSubstr("ulimit -n"));
}

TEST_F(FileTest, AFifoIsRefusedAtOnce) {
  const std::string path = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(File::Open(path).status().message(), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace penstock
