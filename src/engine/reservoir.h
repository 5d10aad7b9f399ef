// The order of a shuffle buffer, by itself: which row leaves at each draw, as a function of the key, the buffer's size and the input's length.
//
// The buffer is filled; each draw takes one of its rows at random and puts the next of the input in its place; when the input has ended the last
// row of the buffer fills the gap. The production of a lane and its replay at a cursor run this same code, over rows or over their numbers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/philox.h"

namespace penstock::engine {

template <class Item>
class Reservoir {
 public:
  Reservoir(RandomStream random, uint64_t capacity) : random_(random), capacity_(capacity) {}

  bool full() const { return items_.size() == capacity_; }
  bool empty() const { return items_.empty(); }
  uint64_t draws() const { return draws_; }
  std::vector<Item>& items() { return items_; }
  const std::vector<Item>& items() const { return items_; }

  void Add(Item item) { items_.push_back(std::move(item)); }
  // Takes one; its place is filled by the last one, so that Add after it is "put the next in its place" up to the names of places.
  Item Draw() {
    Draws draw = random_.At(draws_++);
    const uint64_t place = draw.Below(items_.size());
    std::swap(items_[place], items_.back());
    Item item = std::move(items_.back());
    items_.pop_back();
    return item;
  }
  // As if `draws` had been drawn before.
  void Resume(uint64_t draws) { draws_ = draws; }

 private:
  RandomStream random_;
  uint64_t capacity_;
  uint64_t draws_ = 0;
  std::vector<Item> items_;
};

}  // namespace penstock::engine
