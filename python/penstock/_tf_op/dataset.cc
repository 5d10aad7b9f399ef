// PenstockDataset: a tf.data.Dataset whose elements a penstock reader receives, on TensorFlow's threads and without Python.
#include "tensorflow/core/framework/dataset.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "elements.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"

namespace penstock_tf {
namespace {

namespace data = tensorflow::data;
using tensorflow::DataTypeVector;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::tstring;

constexpr int64_t kSlice = 20;  // milliseconds between looks at whether somebody has cancelled

std::atomic<const PenstockAbi*> bound = nullptr;

void SetString(void* to, const char* text, uint64_t size) { static_cast<std::string*>(to)->assign(text, size); }
PenstockText Into(std::string& text) { return {&SetString, &text}; }

absl::Status ToStatus(int32_t code, const std::string& message) { return {static_cast<absl::StatusCode>(code), message}; }

// What the op's attributes say.
struct Attributes {
  std::string job;    // what is read, wherever the graph is; "": a reader of one process
  std::string place;  // by what name the process that made the dataset has it; "" in others
  std::vector<int64_t> columns;
  std::vector<int64_t> ragged_ranks;
  std::vector<int64_t> levels;
  DataTypeVector types;
  std::vector<PartialTensorShape> shapes;
};

struct Release {
  void operator()(PenstockJob* job) const { bound.load()->release(job); }
};
struct End {
  void operator()(PenstockIteration* iteration) const { bound.load()->end(iteration); }
};

class Dataset final : public data::DatasetBase {
 public:
  Dataset(tensorflow::OpKernelContext* ctx, Attributes attributes, PenstockJob* job)
      : DatasetBase(data::DatasetContext(ctx)), attributes_(std::move(attributes)), job_(job) {
    for (size_t i = 0; i < attributes_.types.size(); ++i) {
      parts_.push_back({attributes_.columns[i], attributes_.ragged_ranks[i], attributes_.levels[i], attributes_.types[i]});
    }
  }

  std::unique_ptr<data::IteratorBase> MakeIteratorInternal(const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::Penstock"});
  }
  const DataTypeVector& output_dtypes() const override { return attributes_.types; }
  const std::vector<PartialTensorShape>& output_shapes() const override { return attributes_.shapes; }
  std::string DebugString() const override { return "PenstockDataset(" + attributes_.job + ")"; }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override { return absl::OkStatus(); }
  absl::Status CheckExternalState() const override { return absl::OkStatus(); }  // iterators save where they are in the job

 protected:
  absl::Status AsGraphDefInternal(data::SerializationContext* ctx, DatasetGraphDefBuilder* b, tensorflow::Node** output) const override {
    std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> attrs(7);
    const char* names[] = {"job", "columns", "ragged_ranks", "levels", "output_types", "output_shapes", "place"};
    for (size_t i = 0; i < attrs.size(); ++i) attrs[i].first = names[i];
    b->BuildAttrValue(attributes_.job, &attrs[0].second);
    b->BuildAttrValue(attributes_.columns, &attrs[1].second);
    b->BuildAttrValue(attributes_.ragged_ranks, &attrs[2].second);
    b->BuildAttrValue(attributes_.levels, &attrs[3].second);
    b->BuildAttrValue(attributes_.types, &attrs[4].second);
    b->BuildAttrValue(attributes_.shapes, &attrs[5].second);
    b->BuildAttrValue(attributes_.place, &attrs[6].second);
    return b->AddDataset(this, {}, attrs, output);
  }

 private:
  class Iterator final : public data::DatasetIterator<Dataset> {
   public:
    explicit Iterator(const Params& params)
        : DatasetIterator<Dataset>(params), abi_(*bound.load()), iteration_(abi_.begin(params.dataset->job_.get())) {}

    absl::Status GetNextInternal(data::IteratorContext* ctx, std::vector<Tensor>* out, bool* end_of_sequence) override {
      const tensorflow::mutex_lock lock(mutex_);
      PenstockElement element;
      std::string error;
      int32_t code = abi_.next(iteration_.get(), kSlice, &element, Into(error));
      while (code == PENSTOCK_WAITING) {
        if (ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled()) {
          return absl::CancelledError("the iterator was cancelled");
        }
        code = abi_.next(iteration_.get(), kSlice, &element, Into(error));
      }
      *end_of_sequence = code == PENSTOCK_ENDED;
      if (*end_of_sequence) return absl::OkStatus();
      if (code != 0) return ToStatus(code, error);
      out->reserve(dataset()->parts_.size());
      for (const Part& part : dataset()->parts_) TF_RETURN_IF_ERROR(AddPart(abi_, element, part, out));
      return absl::OkStatus();
    }

   protected:
    std::shared_ptr<data::model::Node> CreateNode(data::IteratorContext* ctx, data::model::Node::Args args) const override {
      return data::model::MakeSourceNode(std::move(args));
    }

    absl::Status SaveInternal(data::SerializationContext* ctx, data::IteratorStateWriter* writer) override {
      const tensorflow::mutex_lock lock(mutex_);
      std::string state;
      const int32_t code = abi_.save(iteration_.get(), Into(state));
      if (code != 0) return ToStatus(code, state);
      return writer->WriteScalar(prefix(), kState, tstring(state));
    }

    absl::Status RestoreInternal(data::IteratorContext* ctx, data::IteratorStateReader* reader) override {
      const tensorflow::mutex_lock lock(mutex_);
      tstring state;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kState, &state));
      if (state.empty()) return absl::OkStatus();  // saved before the first element
      std::string error;
      const int32_t code = abi_.restore(iteration_.get(), state.data(), state.size(), Into(error));
      return code == 0 ? absl::OkStatus() : ToStatus(code, error);
    }

   private:
    static constexpr char kState[] = "state";

    const PenstockAbi& abi_;
    tensorflow::mutex mutex_;
    const std::unique_ptr<PenstockIteration, End> iteration_;
  };

  const Attributes attributes_;
  const std::unique_ptr<PenstockJob, Release> job_;
  std::vector<Part> parts_;
};

class DatasetOp final : public data::DatasetOpKernel {
 public:
  explicit DatasetOp(tensorflow::OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("job", &attributes_.job));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("place", &attributes_.place));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("columns", &attributes_.columns));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ragged_ranks", &attributes_.ragged_ranks));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("levels", &attributes_.levels));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &attributes_.types));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &attributes_.shapes));
    const size_t parts = attributes_.types.size();
    const bool whole = attributes_.columns.size() == parts && attributes_.ragged_ranks.size() == parts && attributes_.levels.size() == parts &&
                       attributes_.shapes.size() == parts;
    OP_REQUIRES(ctx, whole, absl::InvalidArgumentError("PenstockDataset: its lists of components differ in length"));
  }

 private:
  void MakeDataset(tensorflow::OpKernelContext* ctx, data::DatasetBase** output) override {
    const PenstockAbi* abi = bound;
    OP_REQUIRES(ctx, abi != nullptr, absl::FailedPreconditionError("PenstockDataset: penstock is not imported in this process"));
    const std::string& name = attributes_.place.empty() ? attributes_.job : attributes_.place;
    PenstockJob* job = abi->find(name.data(), name.size());
    OP_REQUIRES(ctx, job != nullptr,
                absl::NotFoundError("PenstockDataset: this process does not read job '" + name +
                                    "'; a dataset over a reader is read in the process that made it"));
    *output = new Dataset(ctx, attributes_, job);
  }

  Attributes attributes_;
};

REGISTER_OP("PenstockDataset")
    .Output("handle: variant")
    .Attr("job: string")
    .Attr("place: string")
    .Attr("columns: list(int)")
    .Attr("ragged_ranks: list(int)")
    .Attr("levels: list(int)")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

REGISTER_KERNEL_BUILDER(Name("PenstockDataset").Device(tensorflow::DEVICE_CPU), DatasetOp);

}  // namespace
}  // namespace penstock_tf

// Called by Python once the library is loaded. The table lives as long as the process. 0: it is of another version.
extern "C" __attribute__((visibility("default"))) int penstock_tf_bind(const PenstockAbi* abi) {
  if (abi->version != PENSTOCK_ABI_VERSION || abi->size != sizeof(PenstockAbi)) return 0;
  penstock_tf::bound = abi;
  return 1;
}
