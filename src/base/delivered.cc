#include "base/delivered.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace penstock {
namespace {

// Disjoint intervals in order, and one more among them.
void Insert(std::vector<Interval>& rows, Interval more) {
  const auto first = std::lower_bound(rows.begin(), rows.end(), more.from, [](const Interval& i, Cursor from) { return i.to < from; });
  auto last = first;
  for (; last != rows.end() && last->from <= more.to; ++last) {
    more.from = std::min(more.from, last->from);
    more.to = std::max(more.to, last->to);
  }
  rows.insert(rows.erase(first, last), more);
}

std::vector<Interval> Difference(const std::vector<Interval>& rows, const std::vector<Interval>& less) {
  std::vector<Interval> left;
  auto cut = less.begin();
  for (Interval interval : rows) {
    while (cut != less.end() && cut->to <= interval.from) ++cut;
    for (auto at = cut; at != less.end() && at->from < interval.to; ++at) {
      if (interval.from < at->from) left.push_back({interval.from, at->from});
      interval.from = std::max(interval.from, at->to);
    }
    if (interval.from < interval.to) left.push_back(interval);
  }
  return left;
}

const std::vector<Interval>& WholeLane() {
  static const auto& whole = *new std::vector<Interval>{Interval{}};  // never destroyed, as the system clock is not
  return whole;
}

std::vector<LaneRange> Difference(const std::vector<LaneRange>& lanes, const std::vector<LaneRange>& less) {
  std::vector<LaneRange> left;
  auto cut = less.begin();
  for (LaneRange range : lanes) {
    while (cut != less.end() && cut->end <= range.first) ++cut;
    for (auto at = cut; at != less.end() && at->first < range.end; ++at) {
      if (range.first < at->first) left.push_back({range.first, at->first});
      range.first = std::max(range.first, at->end);
    }
    if (range.first < range.end) left.push_back(range);
  }
  return left;
}

std::vector<LaneRange> Union(const std::vector<LaneRange>& a, const std::vector<LaneRange>& b) {
  std::vector<LaneRange> all(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), all.begin(), [](LaneRange x, LaneRange y) { return x.first < y.first; });
  std::vector<LaneRange> joined;
  for (const LaneRange range : all) {
    if (!joined.empty() && range.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// ---- text

template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Calls `take` with each piece between commas; an empty text has none.
template <class Take>
Status Split(std::string_view text, Take take) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    PENSTOCK_TRY(take(item));
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
    if (text.empty()) return Status(Code::kInvalid, "it ends with a comma");
  }
  return {};
}

std::string Quoted(std::string_view item) { return "'" + std::string(item.substr(0, 60)) + "'"; }

}  // namespace

std::string CursorText(Cursor cursor) {
  if (cursor == kLaneEndCursor) return "end";
  return std::to_string(cursor.seq) + (cursor.child == 0 ? "" : "." + std::to_string(cursor.child));
}

std::optional<Cursor> ParseCursor(std::string_view text) {
  if (text == "end") return kLaneEndCursor;
  const size_t dot = text.find('.');
  const auto seq = ParseNumber<Seq>(text.substr(0, dot));
  const auto child = dot == std::string_view::npos ? std::optional<uint32_t>(0) : ParseNumber<uint32_t>(text.substr(dot + 1));
  if (!seq || !child || *seq == kLaneEnd) return std::nullopt;
  return Cursor{*seq, *child};
}

void Delivered::Add(LaneId lane, Cursor from, Cursor to) {
  if (from >= to || Whole(lane)) return;
  std::vector<Interval>& rows = parts_[lane];
  Insert(rows, {from, to});
  if (rows == WholeLane()) AddLanes({Raw(lane), Raw(lane) + 1});
}

void Delivered::AddLanes(LaneRange lanes) {
  if (lanes.first >= lanes.end) return;
  parts_.erase(parts_.lower_bound(LaneId{lanes.first}), parts_.lower_bound(LaneId{lanes.end}));
  const auto first = std::lower_bound(whole_.begin(), whole_.end(), lanes.first, [](const LaneRange& range, uint32_t at) { return range.end < at; });
  auto last = first;
  for (; last != whole_.end() && last->first <= lanes.end; ++last) {
    lanes.first = std::min(lanes.first, last->first);
    lanes.end = std::max(lanes.end, last->end);
  }
  whole_.insert(whole_.erase(first, last), lanes);
}

void Delivered::Merge(const Delivered& other) {
  whole_ = Union(whole_, other.whole_);
  std::erase_if(parts_, [this](const auto& part) { return Whole(part.first); });
  for (const auto& [lane, rows] : other.parts_) {
    for (const Interval& interval : rows) Add(lane, interval.from, interval.to);
  }
}

void Delivered::Subtract(const Delivered& other) {
  std::erase_if(parts_, [&other](const auto& part) { return other.Whole(part.first); });
  whole_ = Difference(whole_, other.whole_);
  std::vector<LaneRange> cut;  // whole until now
  for (const auto& [lane, rows] : other.parts_) {
    const bool whole = Whole(lane);
    const auto part = parts_.find(lane);
    if (!whole && part == parts_.end()) continue;
    std::vector<Interval> left = Difference(whole ? WholeLane() : part->second, rows);
    if (whole) cut.push_back({Raw(lane), Raw(lane) + 1});
    if (left.empty()) {
      parts_.erase(lane);
    } else {
      parts_[lane] = std::move(left);
    }
  }
  whole_ = Difference(whole_, cut);
}

bool Delivered::Whole(LaneId lane) const {
  const auto after = std::upper_bound(whole_.begin(), whole_.end(), Raw(lane), [](uint32_t at, const LaneRange& range) { return at < range.first; });
  return after != whole_.begin() && Raw(lane) < std::prev(after)->end;
}

std::vector<Interval> Delivered::Of(LaneId lane) const {
  if (Whole(lane)) return WholeLane();
  const auto part = parts_.find(lane);
  return part == parts_.end() ? std::vector<Interval>() : part->second;
}

std::vector<Interval> Delivered::Missing(LaneId lane) const { return Difference(WholeLane(), Of(lane)); }

uint32_t Delivered::LanesNamed() const {
  return std::max(whole_.empty() ? 0 : whole_.back().end, parts_.empty() ? 0 : Raw(parts_.rbegin()->first) + 1);
}

uint32_t Delivered::LanesBetween() const {
  uint32_t between = LanesNamed() - static_cast<uint32_t>(parts_.size());
  for (const LaneRange range : whole_) between -= range.end - range.first;
  return between;
}

Delivered::Rest Delivered::Complement(uint32_t lanes) const {
  Rest rest;
  rest.watermark = std::min(lanes, LanesNamed());
  for (const LaneRange range : Difference({{0, rest.watermark}}, whole_)) {
    for (uint32_t lane = range.first; lane < range.end; ++lane) {
      for (const Interval& rows : Missing(LaneId{lane})) rest.pieces.push_back({LaneId{lane}, rows});
    }
  }
  return rest;
}

std::string Delivered::LanesText() const {
  std::string text;
  for (const LaneRange range : whole_) {
    if (!text.empty()) text += ',';
    text += std::to_string(range.first);
    if (range.end - range.first > 1) text += '-' + std::to_string(range.end - 1);
  }
  return text;
}

std::string Delivered::RowsText(const std::vector<Interval>& rows) {
  std::string text;
  for (const Interval& interval : rows) text += (text.empty() ? "" : ",") + CursorText(interval.from) + "-" + CursorText(interval.to);
  return text;
}

Status Delivered::AddLanesText(std::string_view text) {
  return Split(text, [this](std::string_view item) -> Status {
    const size_t dash = item.find('-');
    const auto first = ParseNumber<uint32_t>(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseNumber<uint32_t>(item.substr(dash + 1));
    if (!first || !last || *last < *first || *last == std::numeric_limits<uint32_t>::max()) {
      return Status(Code::kInvalid, Quoted(item) + " is no range of lanes; write 7 or 0-5");
    }
    AddLanes({*first, *last + 1});
    return {};
  });
}

Status Delivered::AddRowsText(LaneId lane, std::string_view text) {
  return Split(text, [this, lane](std::string_view item) -> Status {
    const size_t dash = item.find('-');
    const auto from = ParseCursor(item.substr(0, dash));
    const auto to = dash == std::string_view::npos ? std::nullopt : ParseCursor(item.substr(dash + 1));
    if (!from || !to || *to <= *from) return Status(Code::kInvalid, Quoted(item) + " are no rows of a lane; write 0-500, 600.2-700 or 900-end");
    Add(lane, *from, *to);
    return {};
  });
}

std::string Delivered::ToString() const {
  std::string text = LanesText();
  for (const auto& [lane, rows] : parts_) text += (text.empty() ? "" : " ") + std::to_string(Raw(lane)) + ":" + RowsText(rows);
  return text;
}

}  // namespace penstock
