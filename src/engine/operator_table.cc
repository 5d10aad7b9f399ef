// All operators, one line each. Adding one is a file in operators/, its declaration and its line here.
#include <algorithm>
#include <array>

#include "engine/operators/operators.h"

namespace penstock::engine {
namespace {

constexpr size_t kAny = 1'000;

constexpr std::array kOperators = {
    OperatorDef{"arrays", LaneClass::kSource, 0, 0, MakeArrays},
    OperatorDef{"batch", LaneClass::kOrder, 1, 1, MakeBatch},
    OperatorDef{"concatenate", LaneClass::kUnion, 2, kAny, MakeConcatenate},
    OperatorDef{"enumerate", LaneClass::kCount, 1, 1, MakeEnumerate},
    OperatorDef{"filter", LaneClass::kRow, 1, 1, MakeFilter},
    OperatorDef{"flat_map", LaneClass::kRow, 1, 1, MakeFlatMap},
    OperatorDef{"interleave", LaneClass::kOrder, 1, 1, MakeInterleave},
    OperatorDef{"map", LaneClass::kRow, 1, 1, MakeMap},
    OperatorDef{"map_batch", LaneClass::kRow, 1, 1, MakeMapBatch},
    OperatorDef{"padded_batch", LaneClass::kOrder, 1, 1, MakePaddedBatch},
    OperatorDef{"parse_example", LaneClass::kRow, 1, 1, MakeParseExample},
    OperatorDef{"prefetch", LaneClass::kRow, 1, 1, MakePrefetch},
    OperatorDef{"project", LaneClass::kRow, 1, 1, MakeProject},
    OperatorDef{"python", LaneClass::kSource, 0, 0, MakeCodeSource},
    OperatorDef{"range", LaneClass::kSource, 0, 0, MakeRange},
    OperatorDef{"repeat", LaneClass::kCount, 1, 1, MakeRepeat},
    OperatorDef{"shard", LaneClass::kCount, 1, 1, MakeShard},
    OperatorDef{"shuffle", LaneClass::kOrder, 1, 1, MakeShuffle},
    OperatorDef{"skip", LaneClass::kCount, 1, 1, MakeSkip},
    OperatorDef{"take", LaneClass::kCount, 1, 1, MakeTake},
    OperatorDef{"tf", LaneClass::kSource, 0, 0, MakeCodeSource},
    OperatorDef{"tfrecord", LaneClass::kSource, 0, 0, MakeTfRecord},
    OperatorDef{"torch", LaneClass::kSource, 0, 0, MakeCodeSource},
    OperatorDef{"where", LaneClass::kRow, 1, 1, MakeWhere},
    OperatorDef{"zip", LaneClass::kCount, 2, kAny, MakeZip},
};

}  // namespace

const OperatorDef* FindOperator(std::string_view name) {
  const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](const OperatorDef& def) { return def.name == name; });
  return found == kOperators.end() ? nullptr : &*found;
}

std::vector<std::string_view> OperatorNames() {
  std::vector<std::string_view> names;
  for (const OperatorDef& def : kOperators) names.push_back(def.name);
  return names;
}

}  // namespace penstock::engine
