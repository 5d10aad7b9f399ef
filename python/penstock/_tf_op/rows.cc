// PenstockTakeRows: elements of a tf.data iterator as rows of blocks, for an executor. They are taken several at a call, wait as tensors until
// the block's memory is there, and are copied to it. Python says how far to go and where to copy to, and sees no element.
#include "rows.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/kernels/data/iterator_ops.h"

namespace penstock_tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::IteratorResource;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kOffset = sizeof(int64_t);

std::atomic<const PenstockAbi*> bound = nullptr;

// What a component is in a block: numbers of a fixed shape are one buffer, strings have offsets before them, and so have numbers whose first
// dimension differs from row to row.
struct Column {
  int64_t component = 0;
  bool strings = false;
  bool ragged = false;

  bool offsets() const { return strings || ragged; }
  uint64_t items(const Tensor& row) const { return strings ? row.NumElements() : 1; }
};

struct Row {
  std::vector<Tensor> components;
  uint64_t bytes = 0;
};

uint64_t StringBytes(const Tensor& row) {
  const auto texts = row.flat<tstring>();
  uint64_t bytes = 0;
  for (int64_t i = 0; i < texts.size(); ++i) bytes += texts(i).size();
  return bytes;
}

uint64_t ValueBytes(const Column& column, const Tensor& row) { return column.strings ? StringBytes(row) : row.TotalBytes(); }

// A block that is written buffer by buffer.
class Writing {
 public:
  Writing(char* block, const uint64_t* places, uint64_t buffers, uint32_t* crcs)
      : block_(block), places_(places), whole_(WholeOf(places, buffers)), crc_(crcs - 1) {}

  void NextBuffer() {
    at_ = block_ + places_[0];
    places_ += 2;
    *++crc_ = 0;
  }
  void Add(const void* data, uint64_t size) {
    if (size == 0) return;
    *crc_ = bound.load()->copy(data, at_, size, *crc_, whole_);
    at_ += size;
  }

 private:
  static uint64_t WholeOf(const uint64_t* places, uint64_t buffers) {
    uint64_t whole = 0;
    for (uint64_t i = 0; i < buffers; ++i) whole += places[2 * i + 1];
    return whole;
  }

  char* const block_;
  const uint64_t* places_;  // offset and length of each
  const uint64_t whole_;
  uint32_t* crc_;  // of the buffer that is being written
  char* at_ = nullptr;
};

class Rows : public PenstockRows {
 public:
  Rows(int64_t number, const int64_t* components, uint64_t columns) : PenstockRows{} {
    id = number;
    for (uint64_t i = 0; i < columns; ++i) columns_.push_back({components[i]});
  }

  absl::Status Take(OpKernelContext* ctx, IteratorResource& iterator) {
    if (types_.empty()) TF_RETURN_IF_ERROR(Know(iterator));
    const auto until = Clock::now() + std::chrono::nanoseconds(want_ns);
    const uint64_t rows_before = count;
    const uint64_t bytes_before = bytes;
    while (count - rows_before < want_rows) {
      Row row;
      bool end = false;
      TF_RETURN_IF_ERROR(iterator.GetNext(ctx, &row.components, &end));
      if (end) {
        ended = 1;
        break;
      }
      TF_RETURN_IF_ERROR(Keep(std::move(row)));
      if (bytes - bytes_before >= want_bytes || Clock::now() >= until) break;
    }
    return absl::OkStatus();
  }

  uint64_t Within(uint64_t room) const {
    uint64_t rows = 0;
    for (uint64_t used = 0; rows < count && (used += rows_[rows].bytes) <= room;) ++rows;
    return rows;
  }

  // How many buffers there are.
  uint64_t Lengths(uint64_t n, uint64_t* out) const {
    const uint64_t* const first = out;
    for (const Column& column : columns_) {
      uint64_t items = 0;
      uint64_t values = 0;
      for (uint64_t i = 0; i < n; ++i) {
        items += column.items(At(i, column));
        values += ValueBytes(column, At(i, column));
      }
      if (column.offsets()) *out++ = (items + 1) * kOffset;
      *out++ = values;
    }
    return static_cast<uint64_t>(out - first);
  }

  bool Write(uint64_t n, char* block, const uint64_t* places, uint64_t buffers, uint32_t* crcs) {
    if (n > count || !AsTold(n, places, buffers)) return false;
    Writing writing(block, places, buffers, crcs);
    for (const Column& column : columns_) {
      if (column.offsets()) WriteOffsets(n, column, writing);
      writing.NextBuffer();
      for (uint64_t i = 0; i < n; ++i) WriteValues(At(i, column), column, writing);
    }
    for (uint64_t i = 0; i < n; ++i) bytes -= rows_[i].bytes;
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<int64_t>(n));
    count -= n;
    return true;
  }

 private:
  bool AsTold(uint64_t n, const uint64_t* places, uint64_t buffers) const {
    std::vector<uint64_t> lengths(columns_.size() * 2);
    const uint64_t told = Lengths(n, lengths.data());
    if (told != buffers) return false;
    for (uint64_t i = 0; i < told; ++i) {
      if (places[2 * i + 1] != lengths[i]) return false;
    }
    return true;
  }
  const Tensor& At(uint64_t row, const Column& column) const { return rows_[row].components[column.component]; }

  absl::Status Know(const IteratorResource& iterator) {
    const auto& types = iterator.output_dtypes();
    for (Column& column : columns_) {
      if (column.component < 0 || static_cast<size_t>(column.component) >= types.size()) {
        return absl::InvalidArgumentError("PenstockTakeRows: the iterator has no component " + std::to_string(column.component));
      }
      const auto& shape = iterator.output_shapes()[column.component];
      column.strings = types[column.component] == tensorflow::DT_STRING;
      column.ragged = shape.dims() > 0 && shape.dim_size(0) < 0;
      if (!column.strings && !tensorflow::DataTypeCanUseMemcpy(types[column.component])) {
        return absl::InvalidArgumentError("PenstockTakeRows: " + tensorflow::DataTypeString(types[column.component]) + " cannot be a column");
      }
    }
    types_ = types;
    shapes_ = iterator.output_shapes();
    return absl::OkStatus();
  }

  absl::Status Keep(Row row) {
    TF_RETURN_IF_ERROR(tensorflow::data::VerifyTypesMatch(types_, row.components));
    TF_RETURN_IF_ERROR(tensorflow::data::VerifyShapesCompatible(shapes_, row.components));
    for (const Column& column : columns_) {
      const Tensor& component = row.components[column.component];
      row.bytes += ValueBytes(column, component) + (column.offsets() ? column.items(component) * kOffset : 0);
    }
    bytes += row.bytes;
    rows_.push_back(std::move(row));
    ++count;
    return absl::OkStatus();
  }

  void WriteOffsets(uint64_t n, const Column& column, Writing& writing) const {
    std::vector<int64_t> offsets{0};
    for (uint64_t i = 0; i < n; ++i) {
      const Tensor& row = At(i, column);
      if (column.ragged) {
        offsets.push_back(offsets.back() + row.dim_size(0));
        continue;
      }
      const auto texts = row.flat<tstring>();
      for (int64_t j = 0; j < texts.size(); ++j) offsets.push_back(offsets.back() + static_cast<int64_t>(texts(j).size()));
    }
    writing.NextBuffer();
    writing.Add(offsets.data(), offsets.size() * kOffset);
  }

  static void WriteValues(const Tensor& row, const Column& column, Writing& writing) {
    if (!column.strings) return writing.Add(row.data(), row.TotalBytes());
    const auto texts = row.flat<tstring>();
    for (int64_t i = 0; i < texts.size(); ++i) writing.Add(texts(i).data(), texts(i).size());
  }

  std::vector<Column> columns_;
  std::deque<Row> rows_;
  tensorflow::DataTypeVector types_;  // of the components; none before the first is taken
  std::vector<tensorflow::PartialTensorShape> shapes_;
};

// By number: what a graph says is not trusted with an address. Leaked, since threads of TensorFlow's may be here when the process ends.
class Registry {
 public:
  static Registry& All() {
    static auto* all = new Registry;
    return *all;
  }
  Rows* Make(const int64_t* components, uint64_t columns) {
    const tensorflow::mutex_lock lock(mutex_);
    const int64_t number = ++last_;
    auto rows = std::make_shared<Rows>(number, components, columns);
    return (rows_[number] = std::move(rows)).get();
  }
  std::shared_ptr<Rows> Find(int64_t number) {
    const tensorflow::mutex_lock lock(mutex_);
    const auto found = rows_.find(number);
    return found == rows_.end() ? nullptr : found->second;
  }
  void Drop(int64_t number) {
    const tensorflow::mutex_lock lock(mutex_);
    rows_.erase(number);
  }

 private:
  tensorflow::mutex mutex_;
  int64_t last_ = 0;
  std::map<int64_t, std::shared_ptr<Rows>> rows_;
};

class TakeRowsOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    tensorflow::core::RefCountPtr<IteratorResource> iterator;
    OP_REQUIRES_OK(ctx, tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, 0), &iterator));
    OP_REQUIRES(ctx, ctx->input(1).dims() == 0, absl::InvalidArgumentError("PenstockTakeRows: rows is not a number"));
    const std::shared_ptr<Rows> rows = Registry::All().Find(ctx->input(1).scalar<int64_t>()());
    OP_REQUIRES(ctx, rows != nullptr, absl::NotFoundError("PenstockTakeRows: this process has no such rows"));
    OP_REQUIRES_OK(ctx, rows->Take(ctx, *iterator));
  }
};

REGISTER_OP("PenstockTakeRows").Input("iterator: resource").Input("rows: int64").SetIsStateful().SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_KERNEL_BUILDER(Name("PenstockTakeRows").Device(tensorflow::DEVICE_CPU), TakeRowsOp);

}  // namespace
}  // namespace penstock_tf

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int penstock_tf_rows_bind(const PenstockAbi* abi) {
  if (abi->version != PENSTOCK_ABI_VERSION || abi->size != sizeof(PenstockAbi)) return 0;
  penstock_tf::bound = abi;
  return 1;
}

EXPORTED PenstockRows* penstock_tf_rows_make(const int64_t* components, uint64_t columns) {
  return penstock_tf::Registry::All().Make(components, columns);
}

EXPORTED void penstock_tf_rows_drop(PenstockRows* rows) { penstock_tf::Registry::All().Drop(rows->id); }

EXPORTED uint64_t penstock_tf_rows_within(const PenstockRows* rows, uint64_t room) {
  return static_cast<const penstock_tf::Rows*>(rows)->Within(room);
}

EXPORTED void penstock_tf_rows_lengths(const PenstockRows* rows, uint64_t n, uint64_t* lengths) {
  static_cast<const penstock_tf::Rows*>(rows)->Lengths(n, lengths);
}

EXPORTED int penstock_tf_rows_write(PenstockRows* rows, uint64_t n, char* block, const uint64_t* places, uint64_t buffers, uint32_t* crcs) {
  return static_cast<penstock_tf::Rows*>(rows)->Write(n, block, places, buffers, crcs) ? 1 : 0;
}
