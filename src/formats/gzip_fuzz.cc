// Any bytes as gzip and as zlib; and what is deflated comes back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/compression.h"

namespace penstock {
namespace {

constexpr size_t kMost = 1 << 22;  // of output: a small input may inflate a thousandfold

Result<std::string> InflateAll(std::string bytes, Compression compression, size_t piece) {
  const auto stream = Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(std::move(bytes))), compression);
  std::vector<std::byte> buffer(piece);
  std::string out;
  while (out.size() < kMost) {
    PENSTOCK_ASSIGN(const size_t read, stream->Read(buffer));
    if (read == 0) break;
    out.append(reinterpret_cast<const char*>(buffer.data()), read);
  }
  return out;
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = 1 + size_t{data[0]} * 16;
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    (void)InflateAll(bytes, compression, piece).ok();
    Deflater deflater(compression);
    std::string deflated;
    deflater.Add(bytes, deflated);
    deflater.Finish(deflated);
    const auto inflated = InflateAll(deflated, compression, piece);
    if (!inflated.ok() || *inflated != bytes) std::abort();
  }
  return 0;
}
