// The program of examples/cpp, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "formats/example_writer.h"
#include "formats/tfrecord_writer.h"

namespace penstock {
namespace {

constexpr int64_t kFiles = 4;
constexpr int64_t kRows = 250;

struct Finished {
  int exit_code = -1;
  std::string output;  // both streams
};

Finished RunShell(const std::string& command) {
  Finished finished;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return finished;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) finished.output.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  return finished;
}

class ReadTfRecordExample : public testing::Test {
 protected:
  ReadTfRecordExample() : dir_(testing::TempDir() + "penstock-example-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(dir_);
    for (int64_t file = 0; file < kFiles; ++file) WriteFile(file);
  }
  ~ReadTfRecordExample() override { std::filesystem::remove_all(dir_); }

  std::string Files() const { return "'" + dir_ + "/part-*.tfrecord.gz'"; }

  static std::string Expected() {
    constexpr int64_t kAll = kFiles * kRows;
    return "rows " + std::to_string(kAll) + " batches " + std::to_string((kAll + 31) / 32) + " sum " + std::to_string(kAll * (kAll - 1) / 2) + "\n";
  }

 private:
  void WriteFile(int64_t file) {
    auto writer = TfRecordWriter::Create(dir_ + "/part-" + std::to_string(file) + ".tfrecord.gz", Compression::kGzip).value();
    for (int64_t row = 0; row < kRows; ++row) {
      const std::array<int64_t, 1> id{file * kRows + row};
      ASSERT_TRUE(writer->Write(ExampleWriter().Ints("id", id).Finish()).ok());
    }
    ASSERT_TRUE(writer->Close().ok());
  }

  const std::string dir_;
};

TEST_F(ReadTfRecordExample, ReadsInItsOwnProcess) {
  const Finished finished = RunShell(std::string(READ_TFRECORD) + " inline " + Files());
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.output, Expected());
}

TEST_F(ReadTfRecordExample, ReadsTheSameFromTheWorkersOfAService) {
  const Finished finished =
      RunShell(std::string(PENSTOCK) + " local --workers 2 -- sh -c '" + READ_TFRECORD + " \"$PENSTOCK_SERVICE\" \"$0\"' " + Files());
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_THAT(finished.output, testing::HasSubstr(Expected()));
}

TEST_F(ReadTfRecordExample, SaysWhichFilesAreMissing) {
  const Finished finished = RunShell(std::string(READ_TFRECORD) + " inline /nowhere/part-*");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.output, testing::HasSubstr("/nowhere/part-*"));
}

}  // namespace
}  // namespace penstock
