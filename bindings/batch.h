#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "penstock/client.h"

namespace penstock::python {

// [{epoch, replica, lane, first: (seq, child), end: (seq, child), rows}, …]
nanobind::list PiecesToPython(const std::vector<Piece>& pieces);

}  // namespace penstock::python
