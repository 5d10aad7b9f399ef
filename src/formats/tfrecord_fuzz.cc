// Any bytes as a TFRecord file: read whole, skipped, and in two ranges. The first byte chooses the window and the cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/tfrecord.h"

namespace penstock {
namespace {

// How many records came before the end or an error.
uint64_t ReadAll(const std::shared_ptr<const ByteSource>& source, const RecordOptions& options, uint64_t from, uint64_t to) {
  auto reader = RecordReader::Open(source, Compression::kAuto, options, from, to);
  if (!reader.ok()) return 0;
  uint64_t records = 0;
  for (;;) {
    const auto next = (*reader)->Next(4);
    if (!next.ok() || next->empty()) return records;
    for (std::string_view record : *next) {
      if (!record.empty() && record.data()[record.size() - 1] == record.data()[0]) ++records;  // touches both ends
    }
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const auto source = std::make_shared<MemorySource>(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  const RecordOptions options{.verify_crc = (data[0] & 1) != 0, .max_record = 1 << 20, .window = 16U + data[0]};
  ReadAll(source, options, 0, kToEnd);
  ReadAll(source, options, 0, data[0]);
  ReadAll(source, options, data[0], kToEnd);
  if (auto reader = RecordReader::Open(source, Compression::kNone, options); reader.ok()) {
    const auto skipped = (*reader)->Skip(1000);
    if (skipped.ok() && *skipped > size) std::abort();
  }
  return 0;
}
