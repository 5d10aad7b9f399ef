// Which rows of one epoch were delivered: whole lanes as ranges, of other lanes disjoint intervals of cursors.
//
// Lanes are granted in their order, so a million of them that were read are a few ranges. Intervals that touch are one; a lane that was
// delivered from its first row to its end is a whole lane, and has no intervals. Equal sets are equal values.
// Text: lanes "0-5,7" (both ends belong to it); rows of a lane "0-500,600.2-700,900-end" (up to, not with, the second; 600.2 is child 2 of seq 600).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ids.h"
#include "penstock/status.h"

namespace penstock {

// [from, to) of a lane's rows; to = kLaneEndCursor is "to the end", wherever that is.
inline constexpr Cursor kLaneEndCursor{kLaneEnd, 0};
std::string CursorText(Cursor cursor);  // "600", "600.2", "end"
std::optional<Cursor> ParseCursor(std::string_view text);

struct Interval {
  Cursor from;
  Cursor to = kLaneEndCursor;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// [first, end) of an epoch's lanes.
struct LaneRange {
  uint32_t first = 0;
  uint32_t end = 0;
  friend bool operator==(const LaneRange&, const LaneRange&) = default;
};

class Delivered {
 public:
  // What is not there: nothing was delivered of lanes from `watermark` on; of those before it these pieces are missing, in order.
  struct Piece {
    LaneId lane{};
    Interval rows;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  struct Rest {
    uint32_t watermark = 0;
    std::vector<Piece> pieces;
    friend bool operator==(const Rest&, const Rest&) = default;
  };

  void Add(LaneId lane, Cursor from, Cursor to);  // nothing where from >= to
  void AddLanes(LaneRange lanes);                 // whole ones
  void Merge(const Delivered& other);
  void Subtract(const Delivered& other);

  bool empty() const { return whole_.empty() && parts_.empty(); }
  bool Whole(LaneId lane) const;
  std::vector<Interval> Of(LaneId lane) const;       // delivered, in order
  std::vector<Interval> Missing(LaneId lane) const;  // of this lane, in order; to the end where the end is not delivered
  // The complement among `lanes` lanes (kEndlessLanes too: what is named is counted, not the lanes).
  Rest Complement(uint32_t lanes) const;
  // One more than the highest lane that is named; 0 for none.
  uint32_t LanesNamed() const;
  // Of the lanes before that one, those that are not named.
  uint32_t LanesBetween() const;

  const std::vector<LaneRange>& whole() const { return whole_; }                   // disjoint, in order, none touches the next
  const std::map<LaneId, std::vector<Interval>>& parts() const { return parts_; }  // likewise in each lane

  // Text comes from outside: an error says what is wrong with it.
  std::string LanesText() const;  // of whole()
  static std::string RowsText(const std::vector<Interval>& rows);
  Status AddLanesText(std::string_view text);
  Status AddRowsText(LaneId lane, std::string_view text);
  std::string ToString() const;  // "0-5,7 6:0-500,600.2-end": for logs and tests
  friend bool operator==(const Delivered&, const Delivered&) = default;

 private:
  std::vector<LaneRange> whole_;
  std::map<LaneId, std::vector<Interval>> parts_;
};

}  // namespace penstock
