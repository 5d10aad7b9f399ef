// The writer of TFRecord files, for penstock/tfrecord.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bind.h"
#include "errors.h"
#include "formats/tfrecord_writer.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

std::unique_ptr<TfRecordWriter> Create(const std::string& path, const std::string& compression) {
  return Unwrap(TfRecordWriter::Create(path, Unwrap(CompressionFromName(compression))));
}

void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

}  // namespace

void BindTFRecord(nb::module_& m) {
  nb::class_<TfRecordWriter>(m, "TfRecordWriter")
      .def_static("create", &Create, nb::arg("path"), nb::arg("compression"))
      .def(
          "write",
          [](TfRecordWriter& self, nb::bytes record) {
            Check(self.Write({record.c_str(), record.size()}));
          },
          nb::arg("record"))
      .def("close", [](TfRecordWriter& self) { Check(self.Close()); });
}

}  // namespace penstock::python
