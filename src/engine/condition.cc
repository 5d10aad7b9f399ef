#include "engine/condition.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "plan/attrs.h"

namespace penstock::engine {

// Checks step after step with the kinds that would be on the stack.
class ConditionBuilder {
 public:
  explicit ConditionBuilder(const Spec& rows) : rows_(rows) { condition_.wanted_.assign(rows.columns.size(), false); }

  Status Add(const AttrMap& map) {
    AttrReader attrs("where: step " + std::to_string(condition_.steps_.size() + 1), map);
    PENSTOCK_ASSIGN(const std::string op, attrs.String("op"));
    PENSTOCK_TRY(AddStep(op, attrs));
    return attrs.Done();
  }

  Result<Condition> Finish() && {
    if (stack_.size() != 1 || stack_.front().kind != Kind::kTruth)
      return Invalid("the steps do not come to one truth; compare values, as in label > 0");
    condition_.words_ = std::move(stack_.front().words);
    NumberColumns();
    return std::move(condition_);
  }

 private:
  using Op = Condition::Op;
  using Kind = Condition::Kind;
  using Number = Condition::Number;
  using Step = Condition::Step;

  // What a step leaves on the stack, as far as it is known before there are rows.
  struct Operand {
    Kind kind = Kind::kTruth;
    std::string words;
    size_t step = 0;
  };
  struct Comparison {
    std::string_view name;
    Op op;
    std::string_view sign;
  };
  static constexpr std::array kComparisons = {
      Comparison{"equal", Op::kEqual, " == "},    Comparison{"not_equal", Op::kNotEqual, " != "},
      Comparison{"less", Op::kLess, " < "},       Comparison{"less_equal", Op::kLessEqual, " <= "},
      Comparison{"greater", Op::kGreater, " > "}, Comparison{"greater_equal", Op::kGreaterEqual, " >= "},
  };

  static Status Invalid(std::string what) { return Status(Code::kInvalid, "where: " + std::move(what)).With("operator", "where"); }

  Status AddStep(const std::string& op, AttrReader& attrs) {
    if (op == "column") return AddColumn(attrs);
    if (op == "random") return AddRandom();
    if (op == "bool" || op == "int" || op == "float" || op == "text") return AddLiteral(op, attrs);
    if (op == "in") return AddIn(attrs);
    if (op == "not") return AddNot();
    if (op == "and") return AddJoined(Op::kAnd, " and ");
    if (op == "or") return AddJoined(Op::kOr, " or ");
    for (const Comparison& comparison : kComparisons) {
      if (comparison.name == op) return AddComparison(comparison);
    }
    return attrs.Bad("op", "is '" + op + "', which is no step of a condition");
  }

  Status AddColumn(AttrReader& attrs) {
    PENSTOCK_ASSIGN(const std::string name, attrs.String("name"));
    const auto found = std::find_if(rows_.columns.begin(), rows_.columns.end(), [&](const ColumnSpec& column) { return column.name == name; });
    if (found == rows_.columns.end()) return Invalid("there is no column '" + name + "' in " + ToString(rows_));
    if (!found->shape.empty())
      return Invalid("column '" + name + "' has many values a row, " + ToString(rows_) + "; a condition looks at one; filter before batch");
    Step step{.op = Op::kColumn};
    switch (found->dtype) {
      case DType::kBool: step.kind = Kind::kTruth; break;
      case DType::kString: step.kind = Kind::kText; break;
      case DType::kFloat16:
      case DType::kBFloat16:
      case DType::kComplex64:
      case DType::kComplex128:
        return Invalid("column '" + name + "' is " + std::string(Name(found->dtype)) +
                       "; a condition looks at bools, integers, float32, float64 and strings");
      default: step.kind = Kind::kNumber; break;
    }
    step.dtype = found->dtype;
    step.column = static_cast<size_t>(found - rows_.columns.begin());
    condition_.wanted_[step.column] = true;
    return Push(std::move(step), name.empty() ? "the value" : name);
  }

  Status AddRandom() { return Push(Step{.op = Op::kRandom, .kind = Kind::kNumber, .draw = draws_++}, "random"); }

  Status AddLiteral(const std::string& type, AttrReader& attrs) {
    Step step{.op = Op::kLiteral};
    std::string words;
    if (type == "bool") {
      PENSTOCK_ASSIGN(step.truth, attrs.Bool("value"));
      words = step.truth ? "true" : "false";
    } else if (type == "text") {
      step.kind = Kind::kText;
      PENSTOCK_ASSIGN(step.text, attrs.String("value"));
      words = "'" + step.text + "'";
    } else if (type == "int") {
      step.kind = Kind::kNumber;
      PENSTOCK_ASSIGN(const int64_t value, attrs.Int("value"));
      step.number = value;
      words = std::to_string(value);
    } else {
      step.kind = Kind::kNumber;
      PENSTOCK_ASSIGN(const double value, attrs.Float("value"));
      step.number = value;
      words = std::to_string(value);
    }
    return Push(std::move(step), std::move(words));
  }

  Status AddIn(AttrReader& attrs) {
    if (stack_.empty()) return Missing("in");
    Step step{.op = Op::kIn};
    const Kind kind = stack_.back().kind;
    if (attrs.Has("texts")) {
      PENSTOCK_ASSIGN(step.texts, attrs.Strings("texts"));
      std::sort(step.texts.begin(), step.texts.end());
    } else {
      PENSTOCK_TRY(ReadNumbers(attrs, step));
    }
    if (kind != (attrs.Has("texts") ? Kind::kText : Kind::kNumber))
      return Invalid(stack_.back().words + " and the values that it is looked for in differ in kind");
    std::string words = stack_.back().words + " in " + std::to_string(step.texts.size() + step.numbers.size()) + " values";
    stack_.pop_back();
    return Push(std::move(step), std::move(words));
  }

  Status ReadNumbers(AttrReader& attrs, Step& step) const {
    if (attrs.Has("ints")) {
      PENSTOCK_ASSIGN(const std::vector<int64_t> values, attrs.Ints("ints"));
      step.numbers.assign(values.begin(), values.end());
    } else {
      PENSTOCK_ASSIGN(const std::vector<double> values, attrs.Floats("floats"));
      for (const double value : values) step.numbers.push_back(AsCompared(value, stack_.back()));
    }
    std::sort(step.numbers.begin(), step.numbers.end());
    return {};
  }

  Status AddNot() {
    if (stack_.empty()) return Missing("not");
    if (stack_.back().kind != Kind::kTruth) return Invalid("not " + stack_.back().words + ": that is no truth; compare it with something");
    std::string words = "not (" + stack_.back().words + ")";
    stack_.pop_back();
    return Push(Step{.op = Op::kNot}, std::move(words));
  }

  Status AddJoined(Op op, std::string_view sign) {
    if (stack_.size() < 2) return Missing(sign);
    const Operand b = Pop();
    const Operand a = Pop();
    for (const Operand* operand : {&a, &b}) {
      if (operand->kind != Kind::kTruth) return Invalid(operand->words + " is no truth; compare it with something");
    }
    return Push(Step{.op = op}, "(" + a.words + std::string(sign) + b.words + ")");
  }

  Status AddComparison(const Comparison& comparison) {
    if (stack_.size() < 2) return Missing(comparison.name);
    const Operand b = Pop();
    const Operand a = Pop();
    const std::string words = a.words + std::string(comparison.sign) + b.words;
    if (a.kind != b.kind) return Invalid(words + " compares what differs in kind");
    const bool equality = comparison.op == Op::kEqual || comparison.op == Op::kNotEqual;
    if (a.kind == Kind::kTruth && !equality) return Invalid(words + ": truths have no order");
    for (const auto& [literal, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      Step& step = condition_.steps_[literal->step];
      if (step.op == Op::kLiteral && step.kind == Kind::kNumber) step.number = AsCompared(step.number, *other);
    }
    return Push(Step{.op = comparison.op}, words);
  }

  // As numpy has it: beside a column of float32, 0.1 means the float32 next to it.
  Number AsCompared(Number number, const Operand& other) const {
    const Step& step = condition_.steps_[other.step];
    return step.op == Op::kColumn && step.dtype == DType::kFloat32 ? Number{static_cast<float>(number)} : number;
  }

  Status Missing(std::string_view op) const {
    return Invalid("step " + std::to_string(condition_.steps_.size() + 1) + ", " + std::string(op) + ", has too little before it");
  }

  Operand Pop() {
    Operand top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }
  Status Push(Step step, std::string words) {
    stack_.push_back({step.kind, std::move(words), condition_.steps_.size()});
    condition_.steps_.push_back(std::move(step));
    return {};
  }

  // From places in the spec to places among the wanted.
  void NumberColumns() {
    for (Step& step : condition_.steps_) {
      if (step.op != Op::kColumn) continue;
      step.column =
          static_cast<size_t>(std::count(condition_.wanted_.begin(), condition_.wanted_.begin() + static_cast<std::ptrdiff_t>(step.column), true));
    }
  }

  const Spec& rows_;
  Condition condition_;
  std::vector<Operand> stack_;
  uint32_t draws_ = 0;
};

namespace {

template <class T>
T ValueAt(const ColumnView& column, uint64_t row) {
  T value;
  std::memcpy(&value, column.values + row * sizeof(T), sizeof(T));
  return value;
}

std::string_view TextAt(const ColumnView& column, uint64_t row) {
  const int64_t* offsets = column.offsets[0];
  return {reinterpret_cast<const char*>(column.values) + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

template <class T>
bool Compared(bool less, bool equal, bool greater, const T& a, const T& b) {
  return (less && a < b) || (equal && a == b) || (greater && a > b);
}

}  // namespace

Result<Condition> Condition::Create(const std::vector<AttrMap>& steps, const Spec& rows) {
  ConditionBuilder builder(rows);
  for (const AttrMap& step : steps) PENSTOCK_TRY(builder.Add(step));
  return std::move(builder).Finish();
}

void Condition::Evaluate(const std::vector<ColumnView>& columns, uint64_t rows, const RandomStream& random, Seq first,
                         std::vector<uint8_t>& holds) const {
  std::vector<Value> stack;
  stack.reserve(steps_.size());
  for (uint64_t row = 0; row < rows; ++row) holds.push_back(Holds(columns, row, random, first + row, stack) ? 1 : 0);
}

bool Condition::Holds(const std::vector<ColumnView>& columns, uint64_t row, const RandomStream& random, Seq seq, std::vector<Value>& stack) const {
  stack.clear();
  for (const Step& step : steps_) {
    switch (step.op) {
      case Op::kColumn: stack.push_back(Load(step, columns[step.column], row)); continue;
      case Op::kLiteral: stack.push_back({step.kind, step.truth, step.number, step.text}); continue;
      case Op::kRandom: stack.push_back({.kind = Kind::kNumber, .number = Draw(step, random, seq)}); continue;
      case Op::kIn: stack.back() = {.truth = IsIn(step, stack.back())}; continue;
      case Op::kNot: stack.back().truth = !stack.back().truth; continue;
      default: break;
    }
    const Value b = stack.back();
    stack.pop_back();
    Value& a = stack.back();
    const bool truth = step.op == Op::kAnd ? a.truth && b.truth : step.op == Op::kOr ? a.truth || b.truth : Compare(step.op, a, b);
    a = {.truth = truth};
  }
  return stack.front().truth;
}

Condition::Value Condition::Load(const Step& step, const ColumnView& column, uint64_t row) {
  Value value{.kind = step.kind};
  switch (step.dtype) {
    case DType::kBool: value.truth = ValueAt<uint8_t>(column, row) != 0; break;
    case DType::kInt8: value.number = ValueAt<int8_t>(column, row); break;
    case DType::kInt16: value.number = ValueAt<int16_t>(column, row); break;
    case DType::kInt32: value.number = ValueAt<int32_t>(column, row); break;
    case DType::kInt64: value.number = ValueAt<int64_t>(column, row); break;
    case DType::kUInt8: value.number = ValueAt<uint8_t>(column, row); break;
    case DType::kUInt16: value.number = ValueAt<uint16_t>(column, row); break;
    case DType::kUInt32: value.number = ValueAt<uint32_t>(column, row); break;
    case DType::kUInt64: value.number = ValueAt<uint64_t>(column, row); break;
    case DType::kFloat32: value.number = ValueAt<float>(column, row); break;
    case DType::kFloat64: value.number = ValueAt<double>(column, row); break;
    default: value.text = TextAt(column, row); break;  // Create lets nothing else through
  }
  return value;
}

Condition::Number Condition::Draw(const Step& step, const RandomStream& random, Seq seq) {
  Draws draws = random.At(seq);
  for (uint32_t i = 0; i < step.draw; ++i) draws.Unit();
  return draws.Unit();
}

bool Condition::Compare(Op op, const Value& a, const Value& b) {
  if (op == Op::kNotEqual) return !Compare(Op::kEqual, a, b);
  const bool less = op == Op::kLess || op == Op::kLessEqual;
  const bool greater = op == Op::kGreater || op == Op::kGreaterEqual;
  const bool equal = op == Op::kEqual || op == Op::kLessEqual || op == Op::kGreaterEqual;
  switch (a.kind) {
    case Kind::kTruth: return a.truth == b.truth;
    case Kind::kNumber: return Compared(less, equal, greater, a.number, b.number);
    case Kind::kText: return Compared(less, equal, greater, a.text, b.text);
  }
  return false;
}

bool Condition::IsIn(const Step& step, const Value& value) {
  if (value.kind == Kind::kText) return std::binary_search(step.texts.begin(), step.texts.end(), value.text, std::less<>());
  return std::binary_search(step.numbers.begin(), step.numbers.end(), value.number);
}

}  // namespace penstock::engine
