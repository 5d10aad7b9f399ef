// What an operator is to the engine. One file an operator in operators/, one line each in operator_table.cc.
//
// An operator takes part in three ways: it says how many rows it has (where that can be counted) and gives them by number; it opens a stream of
// rows in a lane; it evaluates rows into columns. The defaults hand all three on to its one input, so most operators define only what they change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/columns.h"
#include "base/philox.h"
#include "engine/code.h"
#include "engine/row.h"
#include "penstock/layout.h"
#include "penstock/manifest.h"
#include "penstock/plan.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock::engine {

// How an operator meets lanes (protocol.md 1).
enum class LaneClass : uint8_t { kSource, kRow, kOrder, kUnion, kCount };
std::string_view Name(LaneClass lane_class);

class Operator;

struct OperatorDef {
  std::string_view name;
  LaneClass lane_class;
  size_t min_inputs;
  size_t max_inputs;
  // Checks attributes and inputs; the errors name the attribute. The operator's spec is what it yields.
  Result<std::unique_ptr<Operator>> (*make)(const PlanNode& node, std::span<const Spec* const> inputs);
};

// nullptr: no operator has that name.
const OperatorDef* FindOperator(std::string_view name);
std::vector<std::string_view> OperatorNames();

// Row counts saturate here: an endless repeat of a counted input.
inline constexpr uint64_t kEndlessRows = uint64_t{1} << 62;

// An operator at its place in the plan's tree.
struct Node {
  uint32_t id = 0;         // its ordinal in the tree: part of the key of its randomness
  uint32_t plan_node = 0;  // in the plan, and in the manifest
  const OperatorDef* def = nullptr;
  std::unique_ptr<const Operator> op;
  std::vector<std::unique_ptr<const Node>> inputs;
  std::optional<uint64_t> rows;  // where they can be counted without reading

  const Spec& spec() const;
  const Node& input() const { return *inputs.front(); }
};

// What random orders are drawn from: never from machines, threads or time.
struct OrderKey {
  uint64_t seed = 0;
  Epoch epoch{};
  ReplicaId replica{};
  LaneId lane{};

  OrderKey Pass(uint64_t pass) const;  // of a repeat: an order of its own each time
  OrderKey WholeEpoch() const;         // the same for all lanes
  RandomStream StreamOf(uint32_t op) const { return RandomStream({seed, epoch, replica, lane, op}); }
};

// A part of an input: bytes [begin, end) of a file, or rows of a counted node.
struct Piece {
  uint32_t node = 0;  // Node::id
  uint32_t file = 0;  // in the manifest's list for that node
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// What streams of a lane are opened with. Cheap to copy; what it points to outlives them.
struct LaneContext {
  const Manifest* manifest = nullptr;
  const std::vector<Piece>* pieces = nullptr;  // of this lane, in reading order
  OrderKey order;
  uint32_t cycle = 1;   // files that are read in turn
  bool serial = false;  // one lane with exactly the sequential meaning
  LaneKey key;
  uint64_t state_cap = 0;    // LaneRequest::state_cap
  CodeHost* code = nullptr;  // null: plans with code are refused

  std::vector<Piece> PiecesOf(const Node& node) const;
};

using RowPtrs = std::span<const Row* const>;
using ColumnPtrs = std::span<Column* const>;  // one a column of the spec; null: nobody wants it

struct Batching {
  uint64_t rows = 0;
  bool drop_remainder = false;
  bool pad = false;
};

// What the engine knows of an operator that is not native.
struct CodeTraits {
  bool keeps_rows = false;  // one row out for each that comes in, in order
  uint32_t lanes = 0;       // of a source, into which it cuts itself; 1: its rows come in one order
  Purity purity = Purity::kPure;
};

class Operator {
 public:
  explicit Operator(Spec spec) : spec_(std::move(spec)) {}
  virtual ~Operator() = default;
  const Spec& spec() const { return spec_; }

  // Rows, from those of the inputs; nullopt: not known without reading.
  virtual std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const;
  // Called only where all rows are counted.
  virtual RowIndexPtr Index(const Node& node, const OrderKey& order) const;
  virtual Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const;
  // Appends a row to each wanted column for each of `rows`.
  virtual Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const;
  // Rows [first, first + n) as they lie in memory, a span a column; empty: they do not lie there as a block has them.
  virtual std::vector<std::span<const std::byte>> Kept(uint64_t first, uint64_t n) const;
  // The string of each row where it is at hand without evaluating; false: it is not.
  virtual bool Strings(const Node& node, RowPtrs rows, std::vector<std::string_view>& strings) const;
  // Bytes that one open lane may hold here, when its input has `lane_bytes`.
  virtual uint64_t StateBytes(uint64_t lane_bytes) const;
  // Row-wise operators: whether all columns that come out came in, as they are.
  virtual bool keeps_columns() const { return true; }
  // Whether its rows are those of its input, in their order, and it only evaluates them otherwise.
  virtual bool passes_rows() const { return false; }
  // Row-wise operators: whether they mean the same on rows as on batches of them.
  virtual bool commutes_with_batch() const { return true; }
  // Operators that a host runs (engine/code.h); null: native.
  virtual const CodeTraits* code() const { return nullptr; }
  // How it brings rows of different files together.
  enum class Mixing : uint8_t { kNone, kInterleaves, kShuffles };
  virtual Mixing mixing() const;
  virtual uint32_t cycle() const { return 1; }  // files that it reads in turn
  // Operators that make batches, and those that make passes (-1: endless): the last of each is lifted out of the plan.
  virtual std::optional<Batching> batching() const;
  virtual std::optional<int64_t> passes() const;
  // What it does to rows, with its figures, for explain().
  virtual std::string Words() const = 0;

  // File sources: what they read, and whether a file can be cut at any byte (a compressed one cannot).
  virtual bool reads_files() const { return false; }
  virtual Result<SourceInput> ListInput() const;
  virtual Result<bool> CanCut(const InputFile& file) const;
  // Bytes that a counted row holds until it is evaluated; at least, and more than sizeof(Row) only where it is made of many.
  virtual uint64_t HeldBytesOfRow(const Node& node) const;
  // Bytes of one row in memory, about: how counted rows are cut into lanes.
  virtual uint64_t RowBytes(std::span<const uint64_t> inputs) const;

 private:
  Spec spec_;
};

// The stream of a node: by number where it is counted, by the operator otherwise.
Result<RowStreamPtr> OpenStream(const Node& node, const LaneContext& context);
RowIndexPtr OpenIndex(const Node& node, const OrderKey& order);  // null where there are no rows
Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns);
uint64_t RowBytes(const Node& node);

// An error of rows that hold `bytes`, more than LaneContext::state_cap. `smaller` is the attribute that makes it less.
Status HoldsTooMuch(const std::string& what, uint64_t bytes, std::string_view smaller);

// Errors of `make`: "batch: n must be at least 1".
Status InvalidNode(const PlanNode& node, std::string_view what);

}  // namespace penstock::engine
