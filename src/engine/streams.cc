#include "engine/streams.h"

#include <algorithm>
#include <utility>

namespace penstock::engine {
namespace {

class Counted final : public RowStream {
 public:
  Counted(RowIndexPtr index, std::vector<Piece> pieces) : index_(std::move(index)), pieces_(std::move(pieces)) {
    if (!pieces_.empty()) at_ = pieces_.front().begin;
  }

  Result<bool> Next(Row& row) override {
    if (!Settle()) return false;
    row = index_->At(at_++);
    return true;
  }

  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n && Settle()) {
      const uint64_t step = std::min(n - skipped, pieces_[piece_].end - at_);
      at_ += step;
      skipped += step;
    }
    return skipped;
  }

  std::string where() const override { return "row " + std::to_string(at_); }

 private:
  bool Settle() {
    while (piece_ < pieces_.size() && at_ >= pieces_[piece_].end) {
      if (++piece_ < pieces_.size()) at_ = pieces_[piece_].begin;
    }
    return piece_ < pieces_.size();
  }

  RowIndexPtr index_;
  std::vector<Piece> pieces_;
  size_t piece_ = 0;
  uint64_t at_ = 0;
};

class Sequence final : public RowStream {
 public:
  Sequence(size_t parts, OpenPart open) : parts_(parts), open_(std::move(open)) {}

  Result<bool> Next(Row& row) override {
    for (;;) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) return false;
      PENSTOCK_ASSIGN(const bool more, current_->Next(row));
      if (more) return true;
      current_.reset();
    }
  }

  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) break;
      PENSTOCK_ASSIGN(const uint64_t step, current_->Skip(n - skipped));
      skipped += step;
      if (skipped < n) current_.reset();
    }
    return skipped;
  }

  uint64_t state_bytes() const override { return current_ == nullptr ? 0 : current_->state_bytes(); }
  std::string where() const override { return current_ == nullptr ? std::string() : current_->where(); }

 private:
  Result<bool> Settle() {
    if (current_ != nullptr) return true;
    if (next_ == parts_) return false;
    PENSTOCK_ASSIGN(current_, open_(next_++));
    return true;
  }

  size_t parts_;
  OpenPart open_;
  size_t next_ = 0;
  RowStreamPtr current_;
};

class Cycle final : public RowStream {
 public:
  Cycle(size_t parts, size_t cycle, OpenPart open) : parts_(parts), open_(std::move(open)), places_(std::min(parts, cycle)) {}

  Result<bool> Next(Row& row) override {
    for (;;) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) return false;
      PENSTOCK_ASSIGN(const bool more, places_[turn_]->Next(row));
      Pass(more);
      if (more) return true;
    }
  }

  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) break;
      PENSTOCK_ASSIGN(const uint64_t one, places_[turn_]->Skip(1));
      Pass(one == 1);
      skipped += one;
    }
    return skipped;
  }

  uint64_t state_bytes() const override {
    uint64_t bytes = 0;
    for (const RowStreamPtr& place : places_) bytes += place == nullptr ? 0 : place->state_bytes();
    return bytes;
  }
  std::string where() const override { return turn_ < places_.size() && places_[turn_] != nullptr ? places_[turn_]->where() : std::string(); }

 private:
  // Moves the turn to a place that has a part, opening the next one where the place is free.
  Result<bool> Settle() {
    for (size_t tried = 0; tried < places_.size(); ++tried) {
      if (places_[turn_] == nullptr && next_ < parts_) {
        PENSTOCK_ASSIGN(places_[turn_], open_(next_++));
      }
      if (places_[turn_] != nullptr) return true;
      turn_ = (turn_ + 1) % places_.size();
    }
    return false;
  }
  void Pass(bool more) {
    if (!more) places_[turn_].reset();
    turn_ = (turn_ + 1) % places_.size();
  }

  size_t parts_;
  OpenPart open_;
  std::vector<RowStreamPtr> places_;
  size_t next_ = 0;
  size_t turn_ = 0;
};

class Renumber final : public RowIndex {
 public:
  Renumber(RowIndexPtr input, std::function<uint64_t(uint64_t)> number) : input_(std::move(input)), number_(std::move(number)) {}
  Row At(uint64_t i) override { return input_->At(number_(i)); }

 private:
  RowIndexPtr input_;
  std::function<uint64_t(uint64_t)> number_;
};

}  // namespace

RowIndexPtr Renumbered(RowIndexPtr input, std::function<uint64_t(uint64_t)> number) {
  return std::make_unique<Renumber>(std::move(input), std::move(number));
}

RowStreamPtr CountedStream(const Node& node, const LaneContext& context) {
  // Orders of counted rows are those of the whole epoch: its lanes are ranges of one order.
  return std::make_unique<Counted>(OpenIndex(node, context.order.WholeEpoch()), context.PiecesOf(node));
}

RowStreamPtr InTurn(size_t parts, OpenPart open) { return std::make_unique<Sequence>(parts, std::move(open)); }

RowStreamPtr RoundRobin(size_t parts, size_t cycle, OpenPart open) { return std::make_unique<Cycle>(parts, cycle, std::move(open)); }

}  // namespace penstock::engine
