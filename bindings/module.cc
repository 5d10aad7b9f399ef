#include <nanobind/nanobind.h>

#include "bind.h"

NB_MODULE(_core, m) {
  m.attr("__version__") = PENSTOCK_VERSION;
  penstock::python::BindPlan(m);
  penstock::python::BindBatch(m);
  penstock::python::BindClient(m);
  penstock::python::BindTFRecord(m);
}
