// Specs as plain Python values.
#pragma once

#include <nanobind/nanobind.h>

#include "penstock/spec.h"

namespace penstock::python {

// [(name, dtype, (dimension or None for ragged, …)), …]
nanobind::list ColumnsToPython(const Spec& spec);
// A leaf is None, a dict is a dict, a tuple a tuple.
nanobind::object StructureToPython(const Structure& structure);
nanobind::tuple ShapeToPython(const ColumnSpec& column);

}  // namespace penstock::python
