// A condition on the values of a row, which `where` keeps rows by. The plan carries it as steps of a stack machine, operands first:
//
//   {op: column, name: "label"} {op: int, value: 0} {op: greater}       label > 0
//
// Operands: column (of one value a row), bool, int, float, text, random (uniform in [0, 1), the same for a row whoever draws it).
// Comparisons: equal, not_equal, less, less_equal, greater, greater_equal, in (ints, floats or texts). Of those: and, or, not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/columns.h"
#include "base/philox.h"
#include "penstock/plan.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock::engine {

class Condition {
 public:
  // Checks the steps against the rows that they are for: one truth must come out of them. Errors say which step is wrong, and why.
  static Result<Condition> Create(const std::vector<AttrMap>& steps, const Spec& rows);

  // By column of the spec: whether the condition looks at it.
  const std::vector<bool>& wanted() const { return wanted_; }

  // For each row of `columns` whether it holds; `columns` has those that are wanted, and the first row is the stream's `first`.
  void Evaluate(const std::vector<ColumnView>& columns, uint64_t rows, const RandomStream& random, Seq first, std::vector<uint8_t>& holds) const;

  std::string Words() const { return words_; }

 private:
  friend class ConditionBuilder;

  enum class Op : uint8_t { kColumn, kLiteral, kRandom, kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kAnd, kOr, kNot };
  enum class Kind : uint8_t { kTruth, kNumber, kText };
  // A long double holds every integer of 64 bits and every float as it is.
  using Number = long double;
  struct Value {
    Kind kind = Kind::kTruth;
    bool truth = false;
    Number number = 0;
    std::string_view text = {};
  };
  struct Step {
    Op op = Op::kLiteral;
    Kind kind = Kind::kTruth;             // of what it leaves
    DType dtype = DType::kBool;           // kColumn
    size_t column = 0;                    // kColumn: among the wanted
    uint32_t draw = 0;                    // kRandom: which number of the row
    bool truth = false;                   // kLiteral
    Number number = 0;                    // kLiteral
    std::string text = {};                // kLiteral
    std::vector<Number> numbers = {};     // kIn, sorted
    std::vector<std::string> texts = {};  // kIn, sorted
  };

  static Value Load(const Step& step, const ColumnView& column, uint64_t row);
  static Number Draw(const Step& step, const RandomStream& random, Seq seq);
  static bool Compare(Op op, const Value& a, const Value& b);
  static bool IsIn(const Step& step, const Value& value);
  bool Holds(const std::vector<ColumnView>& columns, uint64_t row, const RandomStream& random, Seq seq, std::vector<Value>& stack) const;

  std::vector<Step> steps_;
  std::vector<bool> wanted_;
  std::string words_;
};

}  // namespace penstock::engine
