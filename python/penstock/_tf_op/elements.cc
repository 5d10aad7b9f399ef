#include "elements.h"

#include <cstring>
#include <string>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace penstock_tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

// Memory of a run. TensorFlow must not write into it or hand it on as its own: OwnsMemory is false.
class RunBuffer final : public tensorflow::TensorBuffer {
 public:
  RunBuffer(const PenstockAbi& abi, PenstockRun* run, const void* data, size_t size)
      : TensorBuffer(const_cast<void*>(data)), abi_(abi), run_(run), size_(size) {
    abi_.keep(run_);
  }
  ~RunBuffer() override { abi_.drop(run_); }

  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<int64_t>(size_));
    proto->set_allocator_name("penstock");
  }

 private:
  const PenstockAbi& abi_;
  PenstockRun* const run_;
  const size_t size_;
};

// Items of a level of a column: rows, then what each dimension divides them into.
struct Items {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};

// Goes through a column's dimensions from the outside in.
class Walk {
 public:
  Walk(const PenstockColumn& column, Items rows) : column_(column), items_(rows) {}

  bool done() const { return dimension_ == column_.rank; }
  const Items& items() const { return items_; }

  // Where each item of this level begins in the next one, from 0: the row splits of the dimension.
  void Splits(int64_t* out) const {
    const int64_t length = column_.shape[dimension_];
    const int64_t* offsets = length < 0 ? Offsets() : nullptr;
    for (int64_t i = 0; i <= items_.count(); ++i) out[i] = length < 0 ? offsets[items_.begin + i] - offsets[items_.begin] : i * length;
  }

  // Of the dimension, where all items of this level are equally long; else -1.
  int64_t Length() const {
    const int64_t length = column_.shape[dimension_];
    if (length >= 0) return length;
    if (items_.count() == 0) return 0;
    const int64_t* offsets = Offsets();
    const int64_t first = offsets[items_.begin + 1] - offsets[items_.begin];
    for (int64_t i = items_.begin; i < items_.end; ++i) {
      if (offsets[i + 1] - offsets[i] != first) return -1;
    }
    return first;
  }

  void Enter() {
    const int64_t length = column_.shape[dimension_++];
    if (length >= 0) {
      items_ = {items_.begin * length, items_.end * length};
      return;
    }
    const int64_t* offsets = Offsets();
    items_ = {offsets[items_.begin], offsets[items_.end]};
    ++ragged_;
  }

  const int64_t* Offsets() const { return static_cast<const int64_t*>(column_.buffers[ragged_].data); }

 private:
  const PenstockColumn& column_;
  Items items_;
  uint64_t dimension_ = 0;
  uint64_t ragged_ = 0;  // dimensions with offsets that are behind
};

bool Aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % EIGEN_MAX_ALIGN_BYTES == 0; }

Tensor Numbers(const PenstockAbi& abi, const PenstockElement& element, const PenstockColumn& column, const Part& part, const TensorShape& shape,
               const Items& items) {
  const char* data = static_cast<const char*>(column.buffers[column.buffer_count - 1].data) + items.begin * column.value_size;
  const size_t size = items.count() * column.value_size;
  if (size > 0 && Aligned(data)) {
    return Tensor(part.dtype, shape, tensorflow::core::RefCountPtr<tensorflow::TensorBuffer>(new RunBuffer(abi, element.run, data, size)));
  }
  Tensor copy(part.dtype, shape);
  if (size > 0) std::memcpy(copy.data(), data, size);
  return copy;
}

// Copied: a tstring that is a view stays one when an op copies it, and would outlive the run.
Tensor Strings(const PenstockColumn& column, const TensorShape& shape, const Items& items, const int64_t* offsets) {
  Tensor strings(tensorflow::DT_STRING, shape);
  auto flat = strings.flat<tstring>();
  const char* data = static_cast<const char*>(column.buffers[column.buffer_count - 1].data);
  for (int64_t i = 0; i < items.count(); ++i) {
    const int64_t* bounds = offsets + items.begin + i;
    flat(i).assign(data + bounds[0], bounds[1] - bounds[0]);
  }
  return strings;
}

absl::Status Differ(const Part& part) {
  return absl::InvalidArgumentError("column " + std::to_string(part.column) +
                                    " of the element has rows of different lengths, and its spec says that it is dense; give it a RaggedTensorSpec");
}

absl::Status OtherType(const Part& part) {
  return absl::InvalidArgumentError("column " + std::to_string(part.column) + " has values of another size than " +
                                    tensorflow::DataTypeString(part.dtype) +
                                    ", which its spec wants; was the dataset registered anew under this job?");
}

Tensor RowSplits(const Walk& walk) {
  Tensor splits(tensorflow::DT_INT64, TensorShape({walk.items().count() + 1}));
  walk.Splits(splits.flat<int64_t>().data());
  return splits;
}

}  // namespace

absl::Status AddPart(const PenstockAbi& abi, const PenstockElement& element, const Part& part, std::vector<Tensor>* out) {
  if (part.column < 0 || static_cast<uint64_t>(part.column) >= element.column_count) {
    return absl::InvalidArgumentError("the element has " + std::to_string(element.column_count) + " columns, and its spec wants column " +
                                      std::to_string(part.column) + "; was the dataset registered anew under this job?");
  }
  const PenstockColumn& column = element.columns[part.column];
  Walk walk(column, {static_cast<int64_t>(element.first), static_cast<int64_t>(element.end)});
  const int64_t rank = static_cast<int64_t>(column.rank) + (element.batched ? 1 : 0);
  if (part.ragged_rank > 0 && rank <= part.ragged_rank) {
    return absl::InvalidArgumentError("column " + std::to_string(part.column) + " has fewer dimensions than its spec");
  }
  if (!element.batched && part.ragged_rank > 0) walk.Enter();  // the row's own first dimension is that of its tensor
  for (int64_t level = 1; level <= part.ragged_rank; ++level) {
    if (level == part.level) {
      out->push_back(RowSplits(walk));
      return absl::OkStatus();
    }
    walk.Enter();
  }
  const uint64_t wanted_size = part.dtype == tensorflow::DT_STRING ? 0 : tensorflow::DataTypeSize(part.dtype);
  if (column.value_size != wanted_size) return OtherType(part);
  TensorShape shape;
  if (element.batched || part.ragged_rank > 0) shape.AddDim(walk.items().count());
  while (!walk.done()) {
    const int64_t length = walk.Length();
    if (length < 0) return Differ(part);
    shape.AddDim(length);
    walk.Enter();
  }
  out->push_back(column.value_size == 0 ? Strings(column, shape, walk.items(), walk.Offsets())
                                        : Numbers(abi, element, column, part, shape, walk.items()));
  return absl::OkStatus();
}

}  // namespace penstock_tf
