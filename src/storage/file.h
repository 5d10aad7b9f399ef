// Files by URI. A plain path or file://path; other schemes are refused by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "penstock/manifest.h"
#include "penstock/status.h"

namespace penstock {

// The path that a URI names on this machine.
Result<std::string> LocalPath(std::string_view uri);

// Size and time of a file. A directory, or anything that is no regular file, is an error.
Result<InputFile> StatFile(std::string_view uri);

// The files that the patterns (paths, or globs with * ? [ ]) name, sorted by path, each once, with size and time: what a manifest holds. A
// pattern that names no file is an error.
Result<std::vector<InputFile>> ListFiles(std::span<const std::string> patterns);

// An open file. Thread-safe: reads are positioned.
class File final : public ByteSource {
 public:
  static Result<std::shared_ptr<const File>> Open(std::string_view uri);
  // As the manifest has it: an error that names the file if size or time are different now, or it is gone.
  static Result<std::shared_ptr<const File>> Open(const InputFile& expected);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& name() const override { return info_.path; }
  uint64_t size() const override { return info_.size; }
  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  void WillRead(uint64_t offset, uint64_t bytes) const override;

 private:
  File(int descriptor, InputFile info) : descriptor_(descriptor), info_(std::move(info)) {}
  int descriptor_;
  InputFile info_;
};

}  // namespace penstock
