// shuffle(buffer_size, seed): counted rows get a true permutation of the whole epoch; others a buffer in each lane, as tf.data's, over lanes whose
// pieces were dealt at random.
#include <algorithm>
#include <memory>
#include <numeric>

#include "base/constants.h"
#include "engine/lanes.h"
#include "engine/operators/operators.h"
#include "engine/reservoir.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

constexpr uint32_t kSeeded = 0xFFFF0000;  // the operator number of shuffles that brought their own seed: equal seeds, equal orders
constexpr uint64_t kExpectedRowBytes = 2 * kKiB;
// A replay is done with numbers alone, so many without knowing how many rows there are.
constexpr uint64_t kReplayedUncounted = uint64_t{1} << 22;

class PermutedIndex final : public RowIndex {
 public:
  PermutedIndex(RowIndexPtr input, Permutation permutation) : input_(std::move(input)), permutation_(std::move(permutation)) {}
  Row At(uint64_t i) override { return input_->At(permutation_(i)); }

 private:
  RowIndexPtr input_;
  Permutation permutation_;
};

class ShuffleStream final : public RowStream {
 public:
  using OpenInput = std::function<Result<RowStreamPtr>()>;
  using Ask = std::function<bool()>;
  ShuffleStream(RowStreamPtr input, OpenInput reopen, Ask counts_cheaply, RandomStream random, uint64_t buffer_size, uint64_t state_cap, bool fits)
      : input_(std::move(input)),
        reopen_(std::move(reopen)),
        counts_cheaply_(std::move(counts_cheaply)),
        random_(random),
        size_(buffer_size),
        state_cap_(state_cap),
        order_(random, buffer_size),
        detached_(!fits) {}

  Result<bool> Next(Row& row) override {
    PENSTOCK_TRY(Fill());
    if (order_.empty()) return false;
    const uint64_t slot = order_.Draw();
    held_ -= HeldBytes(slots_[slot]);
    std::swap(row, slots_[slot]);  // whose memory the next one of the input takes
    free_.push_back(slot);
    return true;
  }

  // From the start: finds by numbers alone which rows are still in the buffer after n draws, and reads only those.
  Result<uint64_t> Skip(uint64_t n) override {
    if (n == 0) return n;
    if (order_.draws() > 0 || !order_.empty()) return SkipByReading(*this, n);
    n = std::min(n, kEndlessRows);
    const bool count_first = n + size_ > kReplayedUncounted || counts_cheaply_();
    PENSTOCK_ASSIGN(const uint64_t rows, count_first ? input_->Skip(n + size_) : Load(n, kEndlessRows));
    const bool ends_before = rows < n + size_;  // the draws are others, then
    if (!ends_before && !count_first) return n;
    PENSTOCK_ASSIGN(input_, reopen_());
    n = std::min(n, rows);
    PENSTOCK_TRY(Load(n, ends_before ? rows : kEndlessRows));
    return n;
  }

  std::optional<uint64_t> left() const override { return ended_ ? std::optional<uint64_t>(order_.items().size()) : std::nullopt; }
  uint64_t state_bytes() const override { return held_ + input_->state_bytes(); }
  std::string where() const override { return input_->where(); }

 private:
  Status Fill() {
    if (!ended_ && order_.draws() > 0 && !detached_) DetachAll();
    while (!ended_ && !order_.full()) {
      if (free_.empty()) {
        free_.push_back(slots_.size());
        slots_.emplace_back();
      }
      const uint64_t slot = free_.back();
      PENSTOCK_ASSIGN(const bool more, input_->Next(slots_[slot]));
      ended_ = !more;
      if (!more) break;
      free_.pop_back();
      if (detached_) Detach(slots_[slot]);
      held_ += HeldBytes(slots_[slot]);
      order_.Add(slot);
      PENSTOCK_TRY(CheckHeld());
    }
    return {};
  }

  Status CheckHeld() const {
    if (state_cap_ == 0 || held_ <= state_cap_) return {};
    return HoldsTooMuch("shuffle: " + std::to_string(order_.items().size()) + " rows of the buffer of " + std::to_string(size_), held_,
                        "buffer_size");
  }

  // Where the whole lane seems to fit the buffer, rows share the windows that they were read into, and nothing is copied. If it does not, rows leave
  // at random while others come, and a few of them would keep a window.
  void DetachAll() {
    held_ = 0;
    for (const uint64_t slot : order_.items()) {
      Detach(slots_[slot]);
      held_ += HeldBytes(slots_[slot]);
    }
    detached_ = true;
  }

  // The numbers of the rows in the buffer after n draws, of an input that has `rows` (at least n) of them.
  Reservoir<uint64_t> Replay(uint64_t n, uint64_t rows) const {
    Reservoir<uint64_t> numbers(random_, size_);
    uint64_t next = 0;
    while (numbers.draws() < n) {
      while (!numbers.full() && next < rows) numbers.Add(next++);
      numbers.Draw();
    }
    return numbers;
  }

  // Brings the buffer to the state after n draws. Returns how many rows the input was seen to have.
  Result<uint64_t> Load(uint64_t n, uint64_t rows) {
    Reservoir<uint64_t> numbers = Replay(n, rows);
    std::vector<std::pair<uint64_t, size_t>> wanted;  // number, place
    for (size_t place = 0; place < numbers.items().size(); ++place) wanted.emplace_back(numbers.items()[place], place);
    std::sort(wanted.begin(), wanted.end());
    slots_ = std::vector<Row>(wanted.size());
    uint64_t at = 0;
    held_ = 0;
    for (const auto& [number, place] : wanted) {
      PENSTOCK_ASSIGN(const uint64_t passed, input_->Skip(number - at));
      at += passed;
      if (at < number) return at;
      PENSTOCK_ASSIGN(const bool more, input_->Next(slots_[place]));
      if (!more) return at;
      ++at;
      Detach(slots_[place]);
      held_ += HeldBytes(slots_[place]);
      PENSTOCK_TRY(CheckHeld());
    }
    const uint64_t taken = std::min(n == 0 ? 0 : n + size_ - 1, rows);  // the input up to the last row that a draw has seen
    PENSTOCK_ASSIGN(const uint64_t passed, input_->Skip(taken - at));
    at += passed;
    if (at < taken) return at;
    order_.items().resize(slots_.size());
    std::iota(order_.items().begin(), order_.items().end(), 0);
    order_.Resume(n);
    detached_ = true;
    return rows == kEndlessRows ? n + size_ : rows;
  }

  RowStreamPtr input_;
  OpenInput reopen_;
  Ask counts_cheaply_;  // whether rows of the input are passed over by their lengths alone
  RandomStream random_;
  uint64_t size_;
  uint64_t state_cap_;         // LaneRequest::state_cap
  Reservoir<uint64_t> order_;  // of slots
  std::vector<Row> slots_;
  std::vector<uint64_t> free_;
  uint64_t held_ = 0;
  bool detached_;  // rows have memory of their own
  bool ended_ = false;
};

class Shuffle final : public Operator {
 public:
  Shuffle(Spec spec, uint64_t buffer_size, std::optional<int64_t> seed) : Operator(std::move(spec)), buffer_size_(buffer_size), seed_(seed) {}

  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    return std::make_unique<PermutedIndex>(OpenIndex(node.input(), order), Permutation(*node.rows, RandomOf(node, order).At(0)));
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    LaneContext inner = context;
    if (!context.serial) inner.cycle = std::max(context.cycle, kLaneFiles);
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), inner));
    const auto reopen = [&node, inner] { return OpenStream(node.input(), inner); };
    const bool fits = Fits(*context.pieces) && TakesAllRecords(node.input());
    const auto counts_cheaply = [&node, inner] { return AreRecordsOfPlainFiles(node.input(), inner); };
    return RowStreamPtr(std::make_unique<ShuffleStream>(std::move(input), reopen, counts_cheaply, RandomOf(node, context.order), buffer_size_,
                                                        context.state_cap, fits));
  }
  uint64_t StateBytes(uint64_t lane_bytes) const override { return std::min(lane_bytes, buffer_size_ * kExpectedRowBytes); }
  Mixing mixing() const override { return Mixing::kShuffles; }
  std::string Words() const override {
    return "buffer of " + std::to_string(buffer_size_) + " rows" + (seed_.has_value() ? ", seed " + std::to_string(*seed_) : "");
  }

 private:
  bool Fits(const std::vector<Piece>& pieces) const {
    uint64_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.end - piece.begin;
    return bytes < buffer_size_ * kExpectedRowBytes;
  }
  // Where its rows come from, as they are.
  static const Node& SourceOf(const Node& input) {
    const Node* node = &input;
    while (node->op->passes_rows() || node->op->mixing() == Mixing::kInterleaves) node = &node->input();
    return *node;
  }
  // Else a row may be the only one of its window: it would keep memory that nobody counts.
  static bool TakesAllRecords(const Node& input) { return SourceOf(input).op->reads_files(); }
  static bool AreRecordsOfPlainFiles(const Node& input, const LaneContext& context) {
    const Node& source = SourceOf(input);
    if (!source.op->reads_files() || context.pieces->empty()) return false;
    const auto files = FilesOf(*context.manifest, source);
    if (!files.ok()) return false;
    const Result<bool> plain = source.op->CanCut((*files)->files[context.pieces->front().file]);
    return plain.ok() && *plain;
  }
  RandomStream RandomOf(const Node& node, OrderKey order) const {
    if (!seed_.has_value()) return order.StreamOf(node.id);
    order.seed ^= order.Pass(static_cast<uint64_t>(*seed_) + 1).seed;
    return order.StreamOf(kSeeded);
  }

  uint64_t buffer_size_;
  std::optional<int64_t> seed_;
};

}  // namespace

MadeOperator MakeShuffle(const PlanNode& node, InputSpecs inputs) {
  constexpr int64_t kMaxBuffer = int64_t{1} << 32;
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t buffer_size, attrs.IntFrom("buffer_size", 1));
  std::optional<int64_t> seed;
  if (attrs.Has("seed")) {
    PENSTOCK_ASSIGN(seed, attrs.Int("seed"));
  }
  PENSTOCK_TRY(attrs.Done());
  if (buffer_size > kMaxBuffer) return attrs.Bad("buffer_size", "must be at most " + std::to_string(kMaxBuffer));
  return std::unique_ptr<Operator>(std::make_unique<Shuffle>(*inputs[0], static_cast<uint64_t>(buffer_size), seed));
}

}  // namespace penstock::engine
