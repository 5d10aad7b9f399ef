// Framing of a TFRecord, for the writer in penstock/tfrecord.py.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "bind.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

void AppendNumber(std::string& out, const void* number, size_t bytes) { out.append(static_cast<const char*>(number), bytes); }

uint32_t CrcOf(std::string_view data) { return MaskedCrc(Crc32c(std::as_bytes(std::span(data)))); }

// length (u64), its masked CRC, data, its masked CRC; little-endian.
nb::bytes Frame(nb::bytes record) {
  std::string_view data(record.c_str(), record.size());
  uint64_t length = data.size();
  std::string out;
  out.reserve(data.size() + 16);
  AppendNumber(out, &length, sizeof(length));
  uint32_t crc = CrcOf(out);
  AppendNumber(out, &crc, sizeof(crc));
  out.append(data);
  crc = CrcOf(data);
  AppendNumber(out, &crc, sizeof(crc));
  return nb::bytes(out.data(), out.size());
}

}  // namespace

void BindTFRecord(nb::module_& m) { m.def("frame_record", &Frame, nb::arg("record")); }

}  // namespace penstock::python
