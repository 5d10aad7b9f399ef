#include "formats/tfrecord_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "formats/tfrecord.h"

namespace penstock {
namespace {

constexpr size_t kFlushAt = 1 << 20;

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EISDIR: return Code::kInvalid;
    case EACCES:
    case EROFS: return Code::kPermission;
    default: return Code::kUnavailable;
  }
}

Status WriteError(int error, const std::string& path) {
  return Status(CodeOf(error), "cannot write " + path + ": " + std::generic_category().message(error)).With("file", path);
}

}  // namespace

Result<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(const std::string& path, Compression compression) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return WriteError(errno, path);
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(path, descriptor, compression));
}

TfRecordWriter::TfRecordWriter(std::string path, int descriptor, Compression compression) : path_(std::move(path)), descriptor_(descriptor) {
  if (compression == Compression::kGzip || compression == Compression::kZlib) deflater_ = std::make_unique<Deflater>(compression);
}

TfRecordWriter::~TfRecordWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status TfRecordWriter::Write(std::string_view record) {
  if (deflater_ == nullptr) {
    AppendRecord(record, out_);
  } else {
    framed_.clear();
    AppendRecord(record, framed_);
    deflater_->Add(framed_, out_);
  }
  return out_.size() < kFlushAt ? Status() : Flush();
}

Status TfRecordWriter::Flush() {
  std::string_view rest = out_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(errno, path_);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  out_.clear();
  return {};
}

Status TfRecordWriter::Close() {
  if (deflater_ != nullptr) deflater_->Finish(out_);
  PENSTOCK_TRY(Flush());
  const int result = ::close(std::exchange(descriptor_, -1));
  return result == 0 ? Status() : WriteError(errno, path_);
}

}  // namespace penstock
