// parse_example(features): tf.Example records into columns, many at once.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>

#include "engine/graph.h"
#include "engine/nested.h"
#include "engine/operators/operators.h"
#include "formats/example.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

// The strings of the input's one column, and where batches of them end (mid-plan batches are parsed flat).
struct Records {
  std::vector<std::string_view> strings;
  std::optional<Column> memory;   // behind the strings, where they had to be evaluated first
  std::vector<uint64_t> batches;  // strings in each row; empty: one
};

Result<Records> RecordsOf(const Node& input, RowPtrs rows) {
  Records records;
  records.strings.reserve(rows.size());
  if (input.op->Strings(input, rows, records.strings)) return records;
  const ColumnSpec& spec = input.spec().columns[0];
  Column& column = records.memory.emplace(spec);
  Column* out = &column;
  PENSTOCK_TRY(engine::Evaluate(input, rows, {&out, 1}));
  const ColumnView view = column.view();
  const ColumnShape& shape = column.shape();
  uint64_t strings = view.rows * shape.fan[0];
  if (shape.levels == 2) {  // a ragged dimension above the string's own
    for (uint64_t i = 0; i < view.rows; ++i) records.batches.push_back(static_cast<uint64_t>(view.offsets[0][i + 1] - view.offsets[0][i]));
    strings = static_cast<uint64_t>(view.offsets[0][view.rows]);
  } else if (!spec.shape.empty()) {
    records.batches.assign(view.rows, shape.fan[0]);
  }
  const int64_t* offsets = view.offsets[shape.levels - 1];
  for (uint64_t i = 0; i < strings; ++i) {
    records.strings.emplace_back(reinterpret_cast<const char*>(view.values) + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
  return records;
}

// Where the record that could not be parsed came from, as far as it is known.
const Origin* OriginOf(const Row& row) {
  if (row.origin.file != nullptr) return &row.origin;
  return row.parts.size() == 1 ? OriginOf(row.parts[0]) : nullptr;
}

Status At(Status status, RowPtrs rows) {
  const std::string place(status.detail("row"));
  const uint64_t index = place.empty() ? 0 : std::stoull(place);
  const Origin* origin = index < rows.size() ? OriginOf(*rows[index]) : nullptr;
  if (origin == nullptr) return status;
  Status said = std::move(status).Prefixed(origin->file->path + " at offset " + std::to_string(origin->offset));
  Status placed = std::move(said).With("file", origin->file->path).With("offset", static_cast<int64_t>(origin->offset));
  return origin->record < 0 ? placed : std::move(placed).With("record", origin->record);
}

class ParseExample final : public Operator {
 public:
  ParseExample(Spec spec, std::vector<FeatureSpec> features, std::optional<Batching> batched)
      : Operator(std::move(spec)), features_(std::move(features)), batched_(batched) {}

  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    PENSTOCK_ASSIGN(const Records records, RecordsOf(node.input(), rows));
    PENSTOCK_ASSIGN(Borrowed parser, Borrow(columns));
    const Status status = batched_.has_value() ? ParseBatches(*parser, records, columns) : ParseRows(*parser, records, columns);
    Return(std::move(parser));
    return status.ok() ? status : At(status, batched_.has_value() ? RowPtrs() : rows);
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  bool passes_rows() const override { return true; }
  bool keeps_columns() const override { return false; }
  std::string Words() const override { return std::to_string(features_.size()) + " features of tf.Examples"; }

 private:
  // A parser of the wanted features, and room for rows that become batches. Parsers learn the order of features, so they are kept.
  struct Worker {
    std::vector<bool> wanted;
    ExampleParser parser;
    Columns columns;
  };
  using Borrowed = std::unique_ptr<Worker>;

  Result<Borrowed> Borrow(ColumnPtrs columns) const {
    std::vector<bool> wanted;
    for (const Column* column : columns) wanted.push_back(column != nullptr);
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = idle_.size(); i-- > 0;) {
        if (idle_[i]->wanted != wanted) continue;
        Borrowed found = std::move(idle_[i]);
        idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    }
    std::vector<FeatureSpec> features;
    for (size_t i = 0; i < features_.size(); ++i) {
      if (wanted[i]) features.push_back(features_[i]);
    }
    PENSTOCK_ASSIGN(ExampleParser parser, ExampleParser::Create(std::move(features)));
    Columns room(parser.spec());
    return std::make_unique<Worker>(Worker{std::move(wanted), std::move(parser), std::move(room)});
  }
  void Return(Borrowed worker) const {
    constexpr size_t kIdle = 64;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kIdle) idle_.push_back(std::move(worker));
  }

  static Status ParseRows(Worker& worker, const Records& records, ColumnPtrs columns) {
    std::vector<Column*> wanted;
    std::copy_if(columns.begin(), columns.end(), std::back_inserter(wanted), [](const Column* column) { return column != nullptr; });
    return worker.parser.Parse(records.strings, wanted);
  }

  Status ParseBatches(Worker& worker, const Records& records, ColumnPtrs columns) const {
    Status status = worker.parser.Parse(records.strings, worker.columns);
    if (status.ok()) HandOver(worker, records, columns);
    worker.columns.Clear();
    return status;
  }

  void HandOver(const Worker& worker, const Records& records, ColumnPtrs columns) const {
    size_t next = 0;
    for (Column* column : columns) {
      if (column == nullptr) continue;
      const ColumnView parsed = worker.columns[next++].view();
      uint64_t first = 0;
      for (const uint64_t n : records.batches) {
        AppendNested(*column, parsed, first, n, !batched_->drop_remainder);
        first += n;
      }
    }
  }

  std::vector<FeatureSpec> features_;
  std::optional<Batching> batched_;  // the input's rows are batches of strings
  mutable std::mutex mutex_;
  mutable std::vector<Borrowed> idle_;
};

Result<std::optional<FeatureDefault>> ReadDefault(AttrReader& attrs, DType dtype) {
  if (!attrs.Has("default")) return std::optional<FeatureDefault>();
  switch (dtype) {
    case DType::kInt64: {
      PENSTOCK_ASSIGN(std::vector<int64_t> values, attrs.Ints("default"));
      return std::optional<FeatureDefault>(std::move(values));
    }
    case DType::kString: {
      PENSTOCK_ASSIGN(std::vector<std::string> values, attrs.Strings("default"));
      return std::optional<FeatureDefault>(std::move(values));
    }
    default: {
      PENSTOCK_ASSIGN(const std::vector<double> values, attrs.Floats("default"));
      std::vector<float> floats;
      for (const double value : values) {
        if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) return attrs.Bad("default", "has numbers beyond float32");
        floats.push_back(static_cast<float>(value));
      }
      return std::optional<FeatureDefault>(std::move(floats));
    }
  }
}

Result<FeatureSpec> ReadFeature(const AttrMap& map) {
  AttrReader attrs("parse_example: a feature", map);
  FeatureSpec feature;
  PENSTOCK_ASSIGN(feature.name, attrs.String("name"));
  PENSTOCK_ASSIGN(const std::string dtype, attrs.String("dtype"));
  PENSTOCK_ASSIGN(feature.dtype, DTypeFromName(dtype));
  PENSTOCK_ASSIGN(feature.shape, attrs.Ints("shape", {}));
  PENSTOCK_ASSIGN(const bool var, attrs.Bool("var", false));
  if (var) feature.shape.insert(feature.shape.begin(), kRagged);
  PENSTOCK_ASSIGN(feature.default_value, ReadDefault(attrs, feature.dtype));
  PENSTOCK_TRY(attrs.Done());
  return feature;
}

}  // namespace

MadeOperator MakeParseExample(const PlanNode& node, InputSpecs inputs) {
  const Spec& input = *inputs[0];
  if (input.columns.size() != 1 || input.columns[0].dtype != DType::kString || input.columns[0].shape.size() > 1) {
    return InvalidNode(node, "wants rows of one string, or batches of such, and its input is " + ToString(input));
  }
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* maps, attrs.Maps("features"));
  PENSTOCK_TRY(attrs.Done());
  std::vector<FeatureSpec> features;
  for (const AttrMap& map : *maps) {
    PENSTOCK_ASSIGN(FeatureSpec feature, ReadFeature(map));
    features.push_back(std::move(feature));
  }
  PENSTOCK_ASSIGN(const ExampleParser parser, ExampleParser::Create(features));
  std::optional<Batching> batched;
  Spec spec = *parser.spec();
  if (!input.columns[0].shape.empty()) {
    const int64_t n = input.columns[0].shape[0];
    batched = Batching{n == kRagged ? 0 : static_cast<uint64_t>(n), n != kRagged, false};
    spec = Batched(spec, *batched);
  }
  return std::unique_ptr<Operator>(std::make_unique<ParseExample>(std::move(spec), std::move(features), batched));
}

}  // namespace penstock::engine
