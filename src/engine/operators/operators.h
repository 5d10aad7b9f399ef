// What operator_table.cc lists: a function an operator that checks its attributes and inputs.
#pragma once

#include <memory>
#include <span>

#include "engine/operator.h"

namespace penstock::engine {

using MadeOperator = Result<std::unique_ptr<Operator>>;
using InputSpecs = std::span<const Spec* const>;

MadeOperator MakeArrays(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeBatch(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeCodeSource(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeConcatenate(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeEnumerate(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeFilter(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeFlatMap(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeInterleave(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeMap(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeMapBatch(const PlanNode& node, InputSpecs inputs);
MadeOperator MakePaddedBatch(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeParseExample(const PlanNode& node, InputSpecs inputs);
MadeOperator MakePrefetch(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeProject(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeRange(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeRepeat(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeShard(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeShuffle(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeSkip(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeTake(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeTfRecord(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeWhere(const PlanNode& node, InputSpecs inputs);
MadeOperator MakeZip(const PlanNode& node, InputSpecs inputs);

}  // namespace penstock::engine
