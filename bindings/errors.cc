#include "errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace penstock::python {

void Raise(const Status& status) {
  nb::dict details;
  for (const Detail& detail : status.details()) details[detail.name.c_str()] = nb::str(detail.value.c_str(), detail.value.size());
  std::string_view code = CodeName(status.code());
  nb::object error = nb::module_::import_("penstock.errors")
                         .attr("from_status")(nb::str(code.data(), code.size()), nb::str(status.message().c_str(), status.message().size()), details);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace penstock::python
