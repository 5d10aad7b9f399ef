// tfrecord(files or listing, compression, verify_crc): the records of files, as strings.
#include "formats/tfrecord.h"

#include <memory>

#include "base/constants.h"
#include "engine/lanes.h"
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"
#include "storage/file.h"

namespace penstock::engine {
namespace {

constexpr size_t kRecordsAtOnce = 64;
constexpr size_t kWindow = 64 * kKiB;  // small, for a lane may have many files open

class RecordStream final : public RowStream {
 public:
  RecordStream(const InputFile& file, std::unique_ptr<RecordReader> reader, bool from_start, bool verified)
      : file_(file), reader_(std::move(reader)), from_start_(from_start), verified_(verified) {}

  Result<bool> Next(Row& row) override {
    if (at_ == records_.size()) {
      offset_ = reader_->offset();
      record_ = reader_->record();
      at_ = 0;
      PENSTOCK_ASSIGN(records_, reader_->Next(kRecordsAtOnce));
      sparse_ = reader_->sparse();
      if (records_.empty()) return false;
    }
    row.number = 0;
    row.parts.clear();
    row.bytes.Share(records_[at_], reader_->window(), verified_ ? std::optional(CrcBehind(records_[at_])) : std::nullopt);
    if (sparse_) row.bytes.Detach();
    row.origin = {&file_, offset_, from_start_ ? static_cast<int64_t>(record_) : -1};
    Pass();
    return true;
  }

  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n && at_ < records_.size()) {
      Pass();
      ++skipped;
    }
    if (skipped == n) return n;
    PENSTOCK_ASSIGN(const uint64_t more, reader_->Skip(n - skipped));
    records_ = {};
    at_ = 0;
    return skipped + more;
  }

  uint64_t state_bytes() const override { return reader_->bytes_held(); }
  std::string where() const override { return reader_->where(); }

 private:
  void Pass() {
    offset_ += kRecordHeader + records_[at_].size() + kRecordFooter;
    ++record_;
    ++at_;
  }

  const InputFile& file_;
  std::unique_ptr<RecordReader> reader_;
  bool from_start_;
  bool verified_;  // records against their CRCs
  std::span<const std::string_view> records_;
  bool sparse_ = false;  // their window: of many small files each row would keep one, and nobody counts them
  size_t at_ = 0;
  uint64_t offset_ = 0;  // of the record at at_
  uint64_t record_ = 0;
};

class TfRecord final : public Operator {
 public:
  TfRecord(std::vector<std::string> patterns, std::string listing, Compression compression, bool verify_crc)
      : Operator(LeafSpec(DType::kString, {})),
        patterns_(std::move(patterns)),
        listing_(std::move(listing)),
        compression_(compression),
        verify_crc_(verify_crc) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>>) const override { return std::nullopt; }

  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(const SourceInput* source, FilesOf(*context.manifest, node));
    auto pieces = std::make_shared<const std::vector<Piece>>(context.PiecesOf(node));
    const OpenPart open = [this, pieces, source, memory = context.state_cap](size_t part) {
      return OpenPiece(source->files[(*pieces)[part].file], (*pieces)[part], memory);
    };
    return context.cycle > 1 ? RoundRobin(pieces->size(), context.cycle, open) : InTurn(pieces->size(), open);
  }

  Status Evaluate(const Node&, RowPtrs rows, ColumnPtrs columns) const override {
    if (columns[0] == nullptr) return {};
    for (const Row* row : rows) columns[0]->AppendString(row->bytes.view());
    return {};
  }
  bool Strings(const Node&, RowPtrs rows, std::vector<std::string_view>& strings) const override {
    for (const Row* row : rows) strings.push_back(row->bytes.view());
    return true;
  }
  std::string Words() const override {
    std::string files = std::to_string(patterns_.size()) + (patterns_.size() == 1 ? " path or pattern" : " paths and patterns");
    if (!listing_.empty()) files = "the files of " + listing_;
    return "records of " + files + ", compression " + std::string(Name(compression_)) + (verify_crc_ ? "" : ", CRCs not verified");
  }

  bool reads_files() const override { return true; }
  Result<SourceInput> ListInput() const override {
    SourceInput input;
    if (listing_.empty()) {
      PENSTOCK_ASSIGN(input.files, ListFiles(patterns_));
    } else {
      PENSTOCK_ASSIGN(input.listing, StatFile(listing_));
    }
    return input;
  }
  Result<bool> CanCut(const InputFile& file) const override {
    if (compression_ != Compression::kAuto) return compression_ == Compression::kNone;
    PENSTOCK_ASSIGN(const auto source, File::Open(file));
    PENSTOCK_ASSIGN(const Compression found, DetectRecordCompression(*source));
    return found == Compression::kNone;
  }

 private:
  Result<RowStreamPtr> OpenPiece(const InputFile& file, const Piece& piece, uint64_t memory) const {
    PENSTOCK_ASSIGN(std::shared_ptr<const ByteSource> source, File::Open(file));
    const uint64_t to = piece.end == file.size ? kToEnd : piece.end;
    RecordOptions options;
    options.verify_crc = verify_crc_;
    options.window = kWindow;
    options.memory = memory;
    PENSTOCK_ASSIGN(auto reader, RecordReader::Open(std::move(source), compression_, options, piece.begin, to));
    return RowStreamPtr(std::make_unique<RecordStream>(file, std::move(reader), piece.begin == 0, verify_crc_));
  }

  std::vector<std::string> patterns_;
  std::string listing_;  // instead of patterns
  Compression compression_;
  bool verify_crc_;
};

}  // namespace

MadeOperator MakeTfRecord(const PlanNode& node, InputSpecs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(std::vector<std::string> files, attrs.Strings("files", {}));
  PENSTOCK_ASSIGN(std::string listing, attrs.String("listing", ""));
  PENSTOCK_ASSIGN(const std::string name, attrs.String("compression", "auto"));
  PENSTOCK_ASSIGN(const bool verify_crc, attrs.Bool("verify_crc", true));
  PENSTOCK_TRY(attrs.Done());
  if (files.empty() && listing.empty()) return attrs.Bad("files", "must name at least one file or pattern");
  if (!files.empty() && !listing.empty()) return attrs.Bad("listing", "stands instead of 'files': name one of them");
  const Result<Compression> compression = CompressionFromName(name);
  if (!compression.ok()) return attrs.Bad("compression", "is '" + name + "'; it is auto, none, gzip or zlib");
  if (!listing.empty() && *compression == Compression::kAuto) {
    return attrs.Bad("compression", "is 'auto', for which every file would be looked at; say none, gzip or zlib where a listing names them");
  }
  return std::unique_ptr<Operator>(std::make_unique<TfRecord>(std::move(files), std::move(listing), *compression, verify_crc));
}

}  // namespace penstock::engine
