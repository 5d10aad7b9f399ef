#include <nanobind/nanobind.h>

#include "bind.h"

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // arrays that a program keeps to its very end are no leak
  m.attr("__version__") = PENSTOCK_VERSION;
  penstock::python::BindPlan(m);
  penstock::python::BindBatch(m);
  penstock::python::BindClient(m);
  penstock::python::BindCluster(m);
  penstock::python::BindTFRecord(m);
  penstock::python::BindTfAbi(m);
  penstock::python::BindProcess(m);
}
