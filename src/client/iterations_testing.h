// Readers for tests of what loops do with them: inline ones, of real plans.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/client.h"
#include "penstock/dataset.h"

namespace penstock {

// The numbers below `stop`, in batches of `batch`, or one by one where it is 0; as many epochs as are started.
inline std::shared_ptr<Reader> ReadNumbers(int64_t stop, int64_t batch = 0) {
  Dataset numbers = Dataset::Range(0, stop);
  if (batch > 0) numbers = numbers.Batch(batch);
  return ReadInline(numbers.plan(), {.epochs = 0}).value();
}

inline std::vector<int64_t> NumbersOf(const Batch& batch, uint64_t first, uint64_t end) {
  std::vector<int64_t> numbers(end - first);
  std::memcpy(numbers.data(), batch.column(0).values().data() + first * sizeof(int64_t), numbers.size() * sizeof(int64_t));
  return numbers;
}

// A file whose first record is no record: reading it fails.
class BrokenFile {
 public:
  BrokenFile() : path_(std::filesystem::temp_directory_path() / ("penstock-broken-" + std::to_string(getpid()))) {
    std::ofstream(path_) << std::string(100, 'x');
  }
  ~BrokenFile() { std::filesystem::remove(path_); }
  BrokenFile(const BrokenFile&) = delete;
  BrokenFile& operator=(const BrokenFile&) = delete;

  std::shared_ptr<Reader> Read() const { return ReadInline(Dataset::TFRecord({path_.string()}, "none").plan(), {.epochs = 0}).value(); }

 private:
  const std::filesystem::path path_;
};

}  // namespace penstock
