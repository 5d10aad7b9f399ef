#include "wire/block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/constants.h"

namespace penstock {
namespace {

constexpr uint64_t AlignUp(uint64_t bytes) { return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign; }

Status Bad(std::string what) { return Status(Code::kData, "a damaged block: " + std::move(what)); }

std::string Number(uint64_t value) { return std::to_string(value); }

// How many buffers the spec and the flags ask for.
uint64_t WantedBuffers(const Spec& spec, const BlockHeader& header) {
  uint64_t count = (header.flags & kHasCursors) != 0 ? 1 : 0;
  for (const ColumnSpec& column : spec.columns) count += BufferCount(column);
  return count;
}

Status CheckHeader(const Spec& spec, const BlockHeader& header, uint64_t available) {
  if (header.magic != kBlockMagic) return Bad("it does not begin with the magic number");
  if ((header.flags & ~kHasCursors) != 0) return Bad("unknown flags " + Number(header.flags) + "; the peer may be newer");
  if (header.reserved0 != 0) return Bad("a reserved field is not zero");
  if (header.total_bytes > available) return Bad("it says " + Number(header.total_bytes) + " bytes and has " + Number(available));
  if (header.rows > kMaxBlockRows) return Bad("it says " + Number(header.rows) + " rows");
  const uint64_t wanted = WantedBuffers(spec, header);
  if (header.buffer_count != wanted) return Bad("it has " + Number(header.buffer_count) + " buffers where the spec asks for " + Number(wanted));
  if (header.total_bytes < sizeof(BlockHeader) + wanted * sizeof(BufferPlace)) return Bad("its head is cut off");
  return {};
}

// Buffers are aligned, in order, apart from each other and inside the block.
Status CheckPlaces(std::span<const BufferPlace> places, uint64_t total) {
  uint64_t end = sizeof(BlockHeader) + places.size_bytes();
  for (size_t i = 0; i < places.size(); ++i) {
    const BufferPlace& place = places[i];
    if (place.offset % kBlockAlign != 0) return Bad("buffer " + Number(i) + " is not aligned");
    if (place.offset < end) return Bad("buffer " + Number(i) + " overlaps what is before it");
    if (place.offset > total || place.length > total - place.offset) return Bad("buffer " + Number(i) + " reaches over the block's end");
    end = place.offset + place.length;
  }
  return {};
}

template <class T>
std::span<const T> As(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Offsets of `count` items: start at 0, never fall. Gives their sum.
Result<uint64_t> CheckOffsets(const ColumnSpec& column, std::span<const std::byte> buffer, uint64_t count) {
  if (buffer.size() != (count + 1) * sizeof(int64_t)) {
    return Bad("column '" + column.name + "' has " + Number(buffer.size()) + " bytes of offsets for " + Number(count) + " items");
  }
  const auto offsets = As<int64_t>(buffer);
  if (offsets[0] != 0) return Bad("the offsets of column '" + column.name + "' do not start at 0");
  bool falls = false;
  for (size_t i = 1; i < offsets.size(); ++i) falls |= offsets[i] < offsets[i - 1];
  if (falls) return Bad("the offsets of column '" + column.name + "' fall");
  return static_cast<uint64_t>(offsets[count]);
}

// Walks the shape from the outside in; `count` is how many items there are at each depth.
Status CheckColumn(const ColumnSpec& column, const BlockView& view, size_t& buffer) {
  uint64_t count = view.rows();
  const auto deeper = [&]() -> Status {
    PENSTOCK_ASSIGN(count, CheckOffsets(column, view.buffer(buffer++), count));
    if (count > kMaxBlock) return Bad("the offsets of column '" + column.name + "' end at " + Number(count));
    return {};
  };
  for (const int64_t dimension : column.shape) {
    if (dimension == kRagged) {
      PENSTOCK_TRY(deeper());
    } else if (__builtin_mul_overflow(count, static_cast<uint64_t>(dimension), &count) || count > kMaxBlock) {
      return Bad("column '" + column.name + "' would hold more values than a block can");
    }
  }
  if (column.dtype == DType::kString) PENSTOCK_TRY(deeper());
  const uint64_t length = view.buffer(buffer++).size();
  if (length != count * SizeOf(column.dtype)) {
    return Bad("column '" + column.name + "' has " + Number(length) + " bytes for " + Number(count) + " values of " +
               std::string(Name(column.dtype)));
  }
  return {};
}

Status CheckCursors(const BlockHeader& header, std::span<const RowCursor> cursors) {
  const Cursor first{header.first_seq, header.first_child};
  const Cursor end{header.end_seq, header.end_child};
  if (cursors.size() != header.rows) return Bad("it has " + Number(cursors.size()) + " cursors for " + Number(header.rows) + " rows");
  if (end < first) return Bad("it ends before it begins");
  if (cursors.empty()) return {};
  if (Cursor{cursors[0].seq, cursors[0].child} < first) return Bad("its first row lies before its first cursor");
  for (size_t i = 1; i < cursors.size(); ++i) {
    if (Cursor{cursors[i].seq, cursors[i].child} <= Cursor{cursors[i - 1].seq, cursors[i - 1].child}) return Bad("its cursors do not rise");
  }
  if (Cursor{cursors.back().seq, cursors.back().child} >= end) return Bad("its last row lies behind its end");
  return {};
}

Status CheckPlainSeqs(const BlockHeader& header) {
  if (header.rows > 0 && header.first_child != 0) return Bad("a first child without cursors");
  if (header.first_seq > kLaneEnd - header.rows) return Bad("its seqs run over");
  const Cursor end{header.end_seq, header.end_child};
  if (end < Cursor{header.first_seq + header.rows, 0} && !(header.rows == 0 && end >= Cursor{header.first_seq, header.first_child})) {
    return Bad("it ends before its last row");
  }
  return {};
}

}  // namespace

BlockInfo BlockView::info() const {
  return {header_->rows, {header_->first_seq, header_->first_child}, {header_->end_seq, header_->end_child}, header_->total_bytes, header_->digest};
}

Cursor BlockView::cursor(uint64_t row) const {
  if (row >= header_->rows) return {header_->end_seq, header_->end_child};
  if (!cursors_.empty()) return {cursors_[row].seq, cursors_[row].child};
  return {header_->first_seq + row, 0};
}

Result<BlockView> CheckBlock(const Spec& spec, std::span<const std::byte> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kBlockAlign != 0) return Bad("its memory is not aligned to 64 bytes");
  if (bytes.size() < sizeof(BlockHeader)) return Bad("it has " + Number(bytes.size()) + " bytes, fewer than a header");
  BlockView view;
  view.header_ = reinterpret_cast<const BlockHeader*>(bytes.data());
  const BlockHeader& header = *view.header_;
  PENSTOCK_TRY(CheckHeader(spec, header, bytes.size()));
  view.bytes_ = bytes.first(header.total_bytes);
  view.places_ = As<BufferPlace>(bytes.subspan(sizeof(BlockHeader), header.buffer_count * sizeof(BufferPlace)));
  PENSTOCK_TRY(CheckPlaces(view.places_, header.total_bytes));
  if ((header.flags & kHasCursors) != 0) {
    if (view.buffer(0).size() % sizeof(RowCursor) != 0) return Bad("its cursors are cut off");
    view.cursors_ = As<RowCursor>(view.buffer(0));
    view.places_ = view.places_.subspan(1);
    PENSTOCK_TRY(CheckCursors(header, view.cursors_));
  } else {
    PENSTOCK_TRY(CheckPlainSeqs(header));
  }
  size_t buffer = 0;
  for (const ColumnSpec& column : spec.columns) PENSTOCK_TRY(CheckColumn(column, view, buffer));
  return view;
}

BlockPlan PlanBlock(uint64_t rows, Cursor first, Cursor end, bool has_cursors, std::span<const uint64_t> buffer_lengths) {
  BlockPlan plan;
  const size_t count = buffer_lengths.size() + (has_cursors ? 1 : 0);
  uint64_t offset = AlignUp(sizeof(BlockHeader) + count * sizeof(BufferPlace));
  const auto place = [&](uint64_t length) {
    plan.places.push_back({offset, length});
    offset = AlignUp(offset + length);
  };
  plan.places.reserve(count);
  if (has_cursors) place(rows * sizeof(RowCursor));
  for (const uint64_t length : buffer_lengths) place(length);
  plan.header.flags = has_cursors ? kHasCursors : 0;
  plan.header.rows = rows;
  plan.header.first_seq = first.seq;
  plan.header.first_child = first.child;
  plan.header.end_seq = end.seq;
  plan.header.end_child = end.child;
  plan.header.buffer_count = static_cast<uint32_t>(count);
  plan.header.total_bytes = offset;
  return plan;
}

uint64_t HeadBytes(const BlockPlan& plan) { return plan.places.empty() ? plan.header.total_bytes : plan.places.front().offset; }

void WriteHeadAlone(const BlockPlan& plan, std::span<std::byte> out) {
  const size_t places = plan.places.size() * sizeof(BufferPlace);
  std::memcpy(out.data(), &plan.header, sizeof(BlockHeader));
  if (places > 0) std::memcpy(out.data() + sizeof(BlockHeader), plan.places.data(), places);
  const uint64_t end = sizeof(BlockHeader) + places;
  std::memset(out.data() + end, 0, HeadBytes(plan) - end);
}

std::vector<std::span<const std::byte>> BehindHead(const BlockPlan& plan, std::span<const std::span<const std::byte>> buffers) {
  static constexpr std::array<std::byte, kBlockAlign> kZeros{};
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t end = plan.places[i].offset + plan.places[i].length;
    const uint64_t next = i + 1 < buffers.size() ? plan.places[i + 1].offset : plan.header.total_bytes;
    if (!buffers[i].empty()) pieces.push_back(buffers[i]);
    if (next > end) pieces.push_back(std::span(kZeros).first(next - end));
  }
  return pieces;
}

void WriteBlockHead(const BlockPlan& plan, std::span<std::byte> out) {
  WriteHeadAlone(plan, out);
  uint64_t end = HeadBytes(plan);
  const auto zero_up_to = [&](uint64_t offset) { std::memset(out.data() + end, 0, offset - end); };
  for (const BufferPlace& place : plan.places) {
    zero_up_to(place.offset);
    end = place.offset + place.length;
  }
  zero_up_to(plan.header.total_bytes);
}

}  // namespace penstock
