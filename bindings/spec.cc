#include "spec.h"

namespace nb = nanobind;

namespace penstock::python {

nb::tuple ShapeToPython(const ColumnSpec& column) {
  nb::list dimensions;
  for (int64_t dimension : column.shape) {
    if (dimension == kRagged) {
      dimensions.append(nb::none());
    } else {
      dimensions.append(dimension);
    }
  }
  return nb::tuple(dimensions);
}

nb::list ColumnsToPython(const Spec& spec) {
  nb::list columns;
  for (const ColumnSpec& column : spec.columns) {
    std::string_view dtype = Name(column.dtype);
    columns.append(nb::make_tuple(nb::str(column.name.c_str(), column.name.size()), nb::str(dtype.data(), dtype.size()), ShapeToPython(column)));
  }
  return columns;
}

nb::object StructureToPython(const Structure& structure) {
  switch (structure.kind) {
    case Structure::Kind::kLeaf: return nb::none();
    case Structure::Kind::kDict: {
      nb::dict children;
      for (size_t i = 0; i < structure.children.size(); ++i) {
        children[nb::str(structure.names[i].c_str(), structure.names[i].size())] = StructureToPython(structure.children[i]);
      }
      return children;
    }
    case Structure::Kind::kTuple: {
      nb::list children;
      for (const Structure& child : structure.children) children.append(StructureToPython(child));
      return nb::tuple(children);
    }
  }
  return nb::none();
}

}  // namespace penstock::python
