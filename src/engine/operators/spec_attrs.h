// Specs as attributes of a plan: `columns` [map of name, dtype, shape] and `structure` [one map].
#pragma once

#include <vector>

#include "penstock/spec.h"
#include "penstock/status.h"
#include "plan/attrs.h"

namespace penstock::engine {

// `name`, `dtype` and `shape` of a column; what else the map has is the caller's.
Result<ColumnSpec> ReadColumnSpec(AttrReader& attrs);
// `structure` over these columns; where there is none, a dict of them.
Result<Spec> ReadStructureOver(AttrReader& attrs, std::vector<ColumnSpec> columns);
// Both attributes. A column may say `arrays`, which is for who builds rows of user code (Python): they lie in blocks as others do.
Result<Spec> ReadSpec(AttrReader& attrs);

}  // namespace penstock::engine
