// Whatever comes as a block, CheckBlock refuses it or gives a view that can be read to its last byte.
#include <cstdlib>
#include <cstring>

#include "base/extent.h"
#include "wire/block.h"

namespace {

using penstock::ColumnSpec;
using penstock::DType;
using penstock::kRagged;

const penstock::Spec& SpecFor(uint8_t choice) {
  static const penstock::Spec specs[] = {
      penstock::LeafSpec(DType::kInt64, {}),
      penstock::LeafSpec(DType::kString, {kRagged, 2}),
      penstock::DictSpec({{"x", DType::kFloat32, {2, kRagged, 3}}, {"name", DType::kString, {}}, {"flag", DType::kBool, {0}}}),
  };
  return specs[choice % 3];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto extent = penstock::HeapExtents().Allocate(size - 1).value();
  if (size > 1) std::memcpy(extent.bytes().data(), data + 1, size - 1);
  const auto view = penstock::CheckBlock(SpecFor(data[0]), extent.bytes());
  if (!view.ok()) return 0;
  uint64_t sum = view->cursor(0).seq + view->cursor(view->rows()).seq;
  for (size_t i = 0; i < view->buffer_count(); ++i) {
    for (const std::byte b : view->buffer(i)) sum += static_cast<uint64_t>(b);
  }
  if (view->rows() > penstock::kMaxBlockRows + sum) std::abort();
  return 0;
}
