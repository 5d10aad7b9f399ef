// Batch: memory of its columns as Python buffers, without a copy. numpy arrays over them are made in Python (penstock/_columns.py).
#include "batch.h"

#include <nanobind/nanobind.h>

#include <cstring>
#include <span>

#include "bind.h"
#include "errors.h"
#include "spec.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// One buffer of a batch. An array made over it keeps it, and with it the batch's memory, alive; dropping it is safe on any thread.
// Writable: the memory is the consumer's own until it lets go.
struct Memory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold;
};

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Memory* memory = nb::inst_ptr<Memory>(nb::handle(self));
  auto* data = const_cast<std::byte*>(memory->bytes.data());
  return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(memory->bytes.size()), 0, flags);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)}, {0, nullptr}};

// [(dtype, shape of a row, (offsets…, values)), …]
nb::list Columns(const Batch& batch) {
  nb::list columns;
  for (size_t i = 0; i < batch.column_count(); ++i) {
    const ColumnSpec& spec = batch.spec().columns[i];
    nb::list buffers;
    for (std::span<const std::byte> bytes : batch.column(i).buffers) buffers.append(nb::cast(Memory{bytes, batch.hold()}));
    std::string_view dtype = Name(spec.dtype);
    columns.append(nb::make_tuple(nb::str(dtype.data(), dtype.size()), ShapeToPython(spec), nb::tuple(buffers)));
  }
  return columns;
}

// Strings of a column: one bytes object each.
nb::list SplitBytes(const Memory& offsets, const Memory& values) {
  size_t count = offsets.bytes.size() / sizeof(int64_t);
  nb::list out;
  if (count == 0) return out;
  auto at = [&](size_t i) {
    int64_t offset = 0;
    std::memcpy(&offset, offsets.bytes.data() + i * sizeof(int64_t), sizeof(int64_t));
    return offset;
  };
  const char* data = reinterpret_cast<const char*>(values.bytes.data());
  for (size_t i = 0; i + 1 < count; ++i) out.append(nb::bytes(data + at(i), static_cast<size_t>(at(i + 1) - at(i))));
  return out;
}

}  // namespace

nb::list PiecesToPython(const std::vector<Piece>& pieces) {
  nb::list out;
  for (const Piece& piece : pieces) {
    nb::dict item;
    item["epoch"] = Raw(piece.lane.epoch);
    item["replica"] = Raw(piece.lane.replica);
    item["lane"] = Raw(piece.lane.lane);
    item["first"] = nb::make_tuple(piece.first.seq, piece.first.child);
    item["end"] = nb::make_tuple(piece.end.seq, piece.end.child);
    item["rows"] = piece.rows;
    out.append(item);
  }
  return out;
}

void BindBatch(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", nb::type_slots(memory_slots)).def("__len__", [](const Memory& memory) { return memory.bytes.size(); });
  nb::class_<Batch>(m, "Batch").def_prop_ro("rows", &Batch::rows).def("columns", &Columns);
  m.def("split_bytes", &SplitBytes, nb::arg("offsets"), nb::arg("values"));
}

}  // namespace penstock::python
