// For tests of the engine: plans in one line, files to read, and lanes read to the end as text.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/pipeline.h"
#include "formats/compression.h"
#include "penstock/plan.h"

namespace penstock::engine::testing {

using Attrs = std::initializer_list<std::pair<const char*, AttrValue>>;

Plan Source(std::string op, Attrs attrs);
Plan Over(const Plan& input, std::string op, Attrs attrs = {});
Plan Over(const std::vector<Plan>& inputs, std::string op);
Plan Numbers(int64_t stop);  // range(0, stop)

// A directory that is removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string Path(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// `files` TFRecord files of `records` records each, "f<file>r<record>" followed by `padding` bytes that do not compress.
std::vector<std::string> WriteFiles(const TempDir& dir, int files, int records, Compression compression, size_t padding = 0);
Plan Records(const std::vector<std::string>& files);
// "f<file>r<record>" of a row.
std::string NameOf(const std::string& row);

// Lists inputs and compiles; fails the test where that fails.
std::shared_ptr<const Pipeline> Compile(const Plan& plan, uint64_t seed = 7);

struct ReadOptions {
  uint32_t epoch = 0;
  uint32_t replica = 0;
  Seq from = 0;
  Seq to = kLaneEnd;
  uint64_t block_target = 1 << 12;
  uint64_t block_cap = 1 << 20;
  std::function<void(const BlockInfo&)> on_block = {};
};

// Rows as text: for each column the lengths of its ragged levels, then its values; columns in [] after one another. A lone column of plain
// numbers or of strings is just the value. Checks that blocks are blocks and seqs are dense.
std::vector<std::string> ReadLane(const Pipeline& pipeline, uint32_t lane, const ReadOptions& options = {});
std::vector<std::string> ReadEpoch(const Pipeline& pipeline, const ReadOptions& options = {});
// The error that the lane ends in.
Status ReadError(const Pipeline& pipeline, uint32_t lane, std::vector<std::string>* rows = nullptr);  // `rows`: those that came before

std::vector<std::string> Sorted(std::vector<std::string> rows);

}  // namespace penstock::engine::testing
