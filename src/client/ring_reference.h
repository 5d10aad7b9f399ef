// The order of `strict` by its definition, for tests: tests/model/strict_order.py, word for word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <tuple>
#include <vector>

namespace penstock {

// What a batch is made of, by row numbers: (lane, first row, rows).
using Part = std::tuple<uint32_t, uint64_t, uint64_t>;
using Parts = std::vector<Part>;

struct Reference {
  std::vector<Parts> batches;
  Parts rest;

  Reference(const std::vector<uint64_t>& lane_rows, uint64_t n, size_t places) {
    std::deque<uint32_t> waiting;
    for (uint32_t lane = 0; lane < lane_rows.size(); ++lane) waiting.push_back(lane);
    std::vector<uint32_t> ring;
    const auto next = [&] {
      const uint32_t lane = waiting.front();
      waiting.pop_front();
      return lane;
    };
    while (ring.size() < places && !waiting.empty()) ring.push_back(next());
    std::vector<uint64_t> cursor(lane_rows.size(), 0);
    std::deque<Part> tails;
    for (size_t place = 0; !ring.empty();) {
      place %= ring.size();
      const uint32_t lane = ring[place];
      if (lane_rows[lane] - cursor[lane] >= n) {
        batches.push_back({{lane, cursor[lane], n}});
        cursor[lane] += n;
        ++place;
        continue;
      }
      if (lane_rows[lane] > cursor[lane]) tails.emplace_back(lane, cursor[lane], lane_rows[lane] - cursor[lane]);
      if (waiting.empty()) {
        ring.erase(ring.begin() + static_cast<ptrdiff_t>(place));
      } else {
        ring[place] = next();
      }
      if (RowsOf({tails.begin(), tails.end()}) >= n) batches.push_back(TakeRows(tails, n));
    }
    rest = {tails.begin(), tails.end()};
  }

  static uint64_t RowsOf(const Parts& parts) {
    uint64_t rows = 0;
    for (const Part& part : parts) rows += std::get<2>(part);
    return rows;
  }
  static Parts TakeRows(std::deque<Part>& tails, uint64_t n) {
    Parts pieces;
    while (n > 0) {
      const auto [lane, first, rows] = tails.front();
      tails.pop_front();
      const uint64_t taken = std::min(rows, n);
      pieces.emplace_back(lane, first, taken);
      n -= taken;
      if (rows > taken) tails.emplace_front(lane, first + taken, rows - taken);
    }
    return pieces;
  }

  // Batches of `mix` groups each; what is left is the last, short one.
  std::vector<Parts> Mixed(uint32_t mix) const {
    std::vector<Parts> joined;
    for (size_t i = 0; i < batches.size(); ++i) {
      if (i % mix == 0) joined.emplace_back();
      joined.back().insert(joined.back().end(), batches[i].begin(), batches[i].end());
    }
    if (!rest.empty() && batches.size() % mix == 0) joined.emplace_back();
    if (!rest.empty()) joined.back().insert(joined.back().end(), rest.begin(), rest.end());
    return joined;
  }
};

}  // namespace penstock
