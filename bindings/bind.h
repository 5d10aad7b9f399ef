// The parts of the module; module.cc puts them together.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void BindPlan(nanobind::module_& m);
void BindBatch(nanobind::module_& m);
void BindClient(nanobind::module_& m);
void BindCluster(nanobind::module_& m);
void BindTFRecord(nanobind::module_& m);
void BindTfAbi(nanobind::module_& m);
void BindProcess(nanobind::module_& m);

}  // namespace penstock::python
