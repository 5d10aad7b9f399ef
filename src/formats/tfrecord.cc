#include "formats/tfrecord.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "base/crc32c.h"

namespace penstock {
namespace {

template <class T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Windows that no record is in any more, of all readers of the process: fresh pages cost more than what is read into them. Any thread.
class SpareWindows {
 public:
  static std::shared_ptr<ByteBuffer> Take() {
    std::unique_ptr<ByteBuffer> window = All().Pop();
    if (window == nullptr) window = std::make_unique<ByteBuffer>();
    return {window.release(), [](ByteBuffer* done) { All().Push(std::unique_ptr<ByteBuffer>(done)); }};
  }

 private:
  static constexpr size_t kMaxSpare = size_t{8} << 20;

  static SpareWindows& All() {
    static auto* all = new SpareWindows;  // rows may outlive what is static
    return *all;
  }

  // Whoever does not get the lock at once does without: a fork may have left it locked.
  std::unique_ptr<ByteBuffer> Pop() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || windows_.empty()) return nullptr;
    auto window = std::move(windows_.back());
    windows_.pop_back();
    bytes_ -= window->capacity();
    return window;
  }
  void Push(std::unique_ptr<ByteBuffer> window) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || bytes_ + window->capacity() > kMaxSpare) return;
    window->Truncate(0);
    bytes_ += window->capacity();
    windows_.push_back(std::move(window));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<ByteBuffer>> windows_;
  size_t bytes_ = 0;
};

uint32_t MaskedCrcOf(std::string_view bytes) { return MaskedCrc(Crc32c(std::as_bytes(std::span(bytes)))); }

// The length that a header names, if its CRC is right.
std::optional<uint64_t> HeaderLength(std::string_view header) {
  if (header.size() < kRecordHeader || Load<uint32_t>(header.data() + 8) != MaskedCrcOf(header.substr(0, 8))) return std::nullopt;
  return Load<uint64_t>(header.data());
}

// Whether a record lies whole in these bytes, if its header is right.
bool SeemsWhole(std::string_view bytes) {
  constexpr size_t kAround = kRecordHeader + kRecordFooter;
  return bytes.size() >= kAround && Load<uint64_t>(bytes.data()) <= bytes.size() - kAround;
}

Result<std::optional<uint64_t>> HeaderAt(const ByteSource& source, uint64_t offset) {
  std::array<char, kRecordHeader> header{};
  PENSTOCK_ASSIGN(const size_t read, source.ReadAt(offset, std::as_writable_bytes(std::span(header))));
  return HeaderLength({header.data(), read});
}

// Whether behind a record at `offset` with `length` bytes of data there is another header, or the end.
Result<bool> FollowedWell(const ByteSource& source, uint64_t offset, uint64_t length) {
  const uint64_t size = source.size();
  if (length > size || size - length < offset + kRecordHeader + kRecordFooter) return false;
  const uint64_t next = offset + kRecordHeader + length + kRecordFooter;
  if (next == size) return true;
  PENSTOCK_ASSIGN(const std::optional<uint64_t> header, HeaderAt(source, next));
  return header.has_value();
}

}  // namespace

Result<uint64_t> FindRecord(const ByteSource& source, uint64_t from, uint64_t to) {
  constexpr size_t kMaxChunk = 64 * 1024;
  size_t length_of_chunk = 4 * 1024;  // most records are shorter
  const uint64_t end = std::min(to, source.size());
  std::string chunk;
  for (uint64_t start = from; start < end;) {
    chunk.resize(length_of_chunk + kRecordHeader - 1);
    PENSTOCK_ASSIGN(const size_t read, source.ReadAt(start, std::as_writable_bytes(std::span(chunk))));
    const uint64_t candidates = std::min<uint64_t>({read, length_of_chunk, end - start});
    for (uint64_t i = 0; i < candidates && i + kRecordHeader <= read; ++i) {
      if (Load<uint64_t>(chunk.data() + i) > source.size()) continue;  // cheaper than a CRC, and rules out nearly all
      const std::optional<uint64_t> length = HeaderLength(std::string_view(chunk).substr(i, kRecordHeader));
      if (!length.has_value()) continue;
      PENSTOCK_ASSIGN(const bool found, FollowedWell(source, start + i, *length));
      if (found) return start + i;
    }
    start += length_of_chunk;
    length_of_chunk = std::min(4 * length_of_chunk, kMaxChunk);
  }
  return end;
}

uint32_t CrcBehind(std::string_view record) { return Load<uint32_t>(record.data() + record.size()); }

Result<Compression> DetectRecordCompression(const ByteSource& source) {
  std::array<char, kRecordHeader> head{};
  PENSTOCK_ASSIGN(const size_t read, source.ReadAt(0, std::as_writable_bytes(std::span(head))));
  if (HeaderLength({head.data(), read}).has_value()) return Compression::kNone;
  return DetectCompression(std::as_bytes(std::span(head.data(), read)));
}

void AppendRecord(std::string_view data, std::string& out) {
  std::array<char, kRecordHeader> header{};
  const uint64_t length = data.size();
  std::memcpy(header.data(), &length, sizeof length);
  const uint32_t length_crc = MaskedCrcOf({header.data(), 8});
  std::memcpy(header.data() + 8, &length_crc, sizeof length_crc);
  const uint32_t data_crc = MaskedCrcOf(data);
  out.append(header.data(), header.size()).append(data).append(reinterpret_cast<const char*>(&data_crc), sizeof data_crc);
}

Result<std::unique_ptr<RecordReader>> RecordReader::Open(std::shared_ptr<const ByteSource> source, Compression compression,
                                                         const RecordOptions& options, uint64_t from, uint64_t to) {
  if (compression == Compression::kAuto) {
    PENSTOCK_ASSIGN(compression, DetectRecordCompression(*source));
  }
  if (compression != Compression::kNone && (from != 0 || to < source->size())) {
    return Status(Code::kInvalid, source->name() + " is compressed: it can only be read whole").With("file", source->name());
  }
  if (from > 0) {
    PENSTOCK_ASSIGN(from, FindRecord(*source, from, to));
  }
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(source), compression, options, from, to));
}

RecordReader::RecordReader(std::shared_ptr<const ByteSource> source, Compression compression, const RecordOptions& options, uint64_t from,
                           uint64_t to)
    : source_(std::move(source)),
      stream_(std::make_unique<SourceStream>(source_, from, to)),
      compressed_(compression != Compression::kNone),
      options_(options),
      to_(compressed_ ? kToEnd : to),
      offset_(from),
      window_(SpareWindows::Take()) {
  if (compressed_) stream_ = Inflate(std::move(stream_), compression);
  edge_checked_ = from > 0 && from >= std::min(to, source_->size());  // no record starts in this range, so none ends it
}

Result<std::span<const std::string_view>> RecordReader::Next(size_t max) {
  records_.clear();
  while (records_.size() < max) {
    // What was already found stays valid only while nothing more is read.
    if (!records_.empty() && !SeemsWhole(held())) break;
    auto length = Header();
    if (length.ok() && !length->has_value()) break;
    auto data = length.ok() ? Data(**length) : Result<std::string_view>(length.status());
    if (!data.ok() && records_.empty()) return data.status();
    if (!data.ok()) break;
    records_.push_back(*data);
    Take(kRecordHeader + data->size() + kRecordFooter);
    ++record_;
  }
  return std::span<const std::string_view>(records_);
}

Result<uint64_t> RecordReader::Skip(uint64_t n) {
  records_.clear();
  for (uint64_t skipped = 0; skipped < n; ++skipped) {
    PENSTOCK_ASSIGN(const std::optional<uint64_t> length, Header());
    if (!length.has_value()) return skipped;
    const uint64_t bytes = kRecordHeader + *length + kRecordFooter;
    const uint64_t in_window = std::min<uint64_t>(bytes, held().size());
    if (in_window < bytes) {
      PENSTOCK_ASSIGN(const uint64_t passed, stream_->Skip(bytes - in_window));
      if (passed < bytes - in_window) return Error("the file ends inside a record of " + std::to_string(*length) + " bytes");
    }
    taken_ += in_window;
    offset_ += bytes;
    ++record_;
  }
  return n;
}

Result<bool> RecordReader::Hold(uint64_t bytes) {
  while (held().size() < bytes) {
    const size_t rest = held().size();
    // Twice what is there at most: a length is no reason to allocate before the bytes have come.
    MakeRoom(std::max<size_t>(options_.window, std::min<uint64_t>(bytes, 2 * rest)));
    const size_t room = std::min<uint64_t>(window_->capacity() - rest, std::max(LeftOfRange(rest), bytes - rest));
    std::byte* end = window_->Extend(room);
    auto read = stream_->Read({end, room});
    window_->Truncate(rest + (read.ok() ? *read : 0));
    if (!read.ok()) {
      return read.status().With("record", std::to_string(record_));
    }
    if (*read == 0) return false;
  }
  return true;
}

// Of the bytes behind those that are held.
uint64_t RecordReader::LeftOfRange(size_t held) const { return to_ - std::min(to_, offset_ + held); }

void RecordReader::MakeRoom(size_t capacity) {
  const std::string_view rest = held();
  if (window_.use_count() == 1) {
    if (taken_ > 0 && !rest.empty()) std::memmove(window_->data(), rest.data(), rest.size());
    window_->Truncate(rest.size());
    window_->Reserve(capacity);
  } else {  // records in it are still in use
    std::shared_ptr<ByteBuffer> fresh = SpareWindows::Take();
    fresh->Reserve(capacity);
    if (!rest.empty()) std::memcpy(fresh->Extend(rest.size()), rest.data(), rest.size());
    window_ = std::move(fresh);
  }
  taken_ = 0;
}

Result<bool> RecordReader::AtEnd() {
  if (offset_ >= to_) {
    if (!edge_checked_) PENSTOCK_TRY(CheckEdge());
    edge_checked_ = true;
    return true;
  }
  PENSTOCK_ASSIGN(const bool more, Hold(1));
  return !more;
}

Result<std::optional<uint64_t>> RecordReader::Header() {
  PENSTOCK_ASSIGN(const bool end, AtEnd());
  if (end) return std::optional<uint64_t>();
  PENSTOCK_ASSIGN(const bool whole, Hold(kRecordHeader));
  if (!whole) return Error("the file ends inside a record's header");
  const std::optional<uint64_t> length = HeaderLength(held());
  if (!length.has_value()) {
    return Error(record_ == 0 && offset_ == 0 ? "the length's CRC does not match: this is not a TFRecord file, or its compression is another"
                                              : "the length's CRC does not match: the file is damaged");
  }
  if (*length > options_.max_record) {
    return Error("the record has " + std::to_string(*length) + " bytes, more than the cap of " + std::to_string(options_.max_record));
  }
  return length;
}

Status RecordReader::TooLarge(uint64_t length) const {
  constexpr uint64_t kEnough = 4;  // times its length: read, as values, and as a block whose size is rounded up
  return Error("the record has " + std::to_string(length) + " bytes, more than the memory budget allows; give --memory of at least " +
                   std::to_string(kEnough * length),
               Code::kTooLarge);
}

Result<std::string_view> RecordReader::Data(uint64_t length) {
  // By its header, before there is memory for it: it lies here, and then once more as values.
  if (options_.memory > 0 && length > options_.memory / 2) return TooLarge(length);
  PENSTOCK_ASSIGN(const bool whole, Hold(kRecordHeader + length + kRecordFooter));
  if (!whole) return Error("the file ends inside a record of " + std::to_string(length) + " bytes");
  const std::string_view data = held().substr(kRecordHeader, length);
  if (options_.verify_crc && CrcBehind(data) != MaskedCrcOf(data)) {
    return Error("the data's CRC does not match: the file is damaged");
  }
  return data;
}

void RecordReader::Take(uint64_t bytes) {
  taken_ += bytes;
  offset_ += bytes;
}

// The range behind this one looks for two valid headers in a row. If the first record there is damaged it would be passed over without a word: so
// it is this range, which knows where that record starts, that looks.
Status RecordReader::CheckEdge() const {
  if (offset_ >= source_->size()) return {};
  PENSTOCK_ASSIGN(const std::optional<uint64_t> length, HeaderAt(*source_, offset_));
  if (!length.has_value()) return Error("the length's CRC does not match: the file is damaged");
  PENSTOCK_ASSIGN(const bool followed, FollowedWell(*source_, offset_, *length));
  if (!followed) return Error("the file is damaged or ends inside or right behind a record of " + std::to_string(*length) + " bytes");
  return {};
}

std::string RecordReader::where() const { return "read " + source_->name() + " at " + stream_->where(); }

Status RecordReader::Error(const std::string& what, Code code) const {
  return Status(code, source_->name() + " at " + (compressed_ ? "inflated " : "") + "offset " + std::to_string(offset_) + ", record " +
                          std::to_string(record_) + ": " + what)
      .With("file", source_->name())
      .With("offset", std::to_string(offset_))
      .With("record", std::to_string(record_));
}

}  // namespace penstock
