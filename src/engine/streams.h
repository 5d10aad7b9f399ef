// Streams that more than one operator is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/operator.h"
#include "engine/row.h"

namespace penstock::engine {

// The rows of a counted node that the lane's pieces name, by number: passing over rows costs nothing.
RowStreamPtr CountedStream(const Node& node, const LaneContext& context);

using OpenPart = std::function<Result<RowStreamPtr>(size_t part)>;

// Parts one after the other, each opened when its turn comes.
RowStreamPtr InTurn(size_t parts, OpenPart open);

// A row of each of up to `cycle` parts in turn. A part that ends leaves its place to the next one, which begins when that place's turn comes
// again: the order of tf.data's interleave.
RowStreamPtr RoundRobin(size_t parts, size_t cycle, OpenPart open);

// Counted rows under other numbers.
RowIndexPtr Renumbered(RowIndexPtr input, std::function<uint64_t(uint64_t)> number);

// A wrapper for streams that hand their state on.
class OverOne : public RowStream {
 public:
  explicit OverOne(RowStreamPtr input) : input_(std::move(input)) {}
  uint64_t state_bytes() const override { return input_->state_bytes(); }
  std::string where() const override { return input_->where(); }

 protected:
  RowStreamPtr input_;
};

}  // namespace penstock::engine
