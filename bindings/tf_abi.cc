// The table that the TensorFlow op library is handed (python/penstock/_tf_op/abi.h), over client/iterations.h.
#include <nanobind/nanobind.h>

#include <atomic>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "abi.h"
#include "base/crc32c.h"
#include "bind.h"
#include "client/iterations.h"

namespace nb = nanobind;
using penstock::Iteration;
using penstock::Iterations;

struct PenstockJob {
  std::shared_ptr<Iterations> iterations;
};

struct PenstockRun {
  std::shared_ptr<const penstock::Batch> batch;
  std::vector<PenstockColumn> columns;
  std::vector<PenstockBuffer> buffers;
  std::atomic<uint32_t> holders = 1;
};

struct PenstockIteration {
  explicit PenstockIteration(std::shared_ptr<Iterations> all) : iteration(std::move(all)) {}
  Iteration iteration;
  PenstockRun* run = nullptr;  // of the last element; held
};

namespace penstock::python {
namespace {

// absl::StatusCode, which is that of gRPC. Never OUT_OF_RANGE, by which TensorFlow means the end of a dataset.
int32_t TfCode(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kCancelled: return 1;
    case Code::kInvalid: return 3;
    case Code::kDeadline:
    case Code::kStalled: return 4;
    case Code::kNotFound: return 5;
    case Code::kExists: return 6;
    case Code::kPermission: return 7;
    case Code::kBusy:
    case Code::kTooLarge: return 8;
    case Code::kMismatch:
    case Code::kStale:
    case Code::kFinished: return 9;
    case Code::kInternal: return 13;
    case Code::kUnavailable: return 14;
    case Code::kData:
    case Code::kNotDeterministic: return 15;
    case Code::kExecutor: return 2;
  }
  return 2;
}

// What TensorFlow said itself, on a worker: the loop's `except tf.errors.…` is to catch it. 0: it was not TensorFlow, or it said what is no error
// here.
int32_t OwnTfCode(const Status& status) {
  constexpr int32_t kOutOfRange = 11;
  constexpr int32_t kLast = 16;
  const std::string_view text = status.detail("tf_code");
  int32_t code = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && code > 0 && code <= kLast && code != kOutOfRange ? code : 0;
}

void Put(const PenstockText& text, std::string_view content) { text.set(text.to, content.data(), content.size()); }

int32_t Fail(const Status& status, const PenstockText& error) {
  std::string message = status.message();
  for (const Detail& detail : status.details()) {
    if (detail.name == "traceback") message += "\n" + detail.value;
  }
  Put(error, message);
  const int32_t own = status.code() == Code::kExecutor ? OwnTfCode(status) : 0;
  return own != 0 ? own : TfCode(status.code());
}

PenstockJob* Find(const char* name, uint64_t size) {
  std::shared_ptr<Iterations> found = FindOffered(std::string(name, size));
  return found == nullptr ? nullptr : new PenstockJob{std::move(found)};
}

void Release(PenstockJob* job) { delete job; }

PenstockIteration* Begin(PenstockJob* job) { return new PenstockIteration(job->iterations); }

void Keep(PenstockRun* run) { run->holders.fetch_add(1, std::memory_order_relaxed); }

void Drop(PenstockRun* run) {
  if (run != nullptr && run->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete run;
}

PenstockRun* MakeRun(std::shared_ptr<const Batch> batch) {
  auto* run = new PenstockRun{.batch = std::move(batch), .columns = {}, .buffers = {}};
  const Batch& held = *run->batch;
  for (size_t i = 0; i < held.column_count(); ++i) {
    for (const std::span<const std::byte> bytes : held.column(i).buffers) run->buffers.push_back({bytes.data(), bytes.size()});
  }
  const PenstockBuffer* next = run->buffers.data();
  for (size_t i = 0; i < held.column_count(); ++i) {
    const ColumnSpec& spec = held.spec().columns[i];
    const size_t count = held.column(i).buffers.size();
    run->columns.push_back({spec.shape.data(), spec.shape.size(), spec.dtype == DType::kString ? 0 : SizeOf(spec.dtype), next, count});
    next += count;
  }
  return run;
}

int32_t Next(PenstockIteration* iteration, int64_t wait_ms, PenstockElement* element, PenstockText error) {
  if (!iteration->iteration.in_run()) Drop(std::exchange(iteration->run, nullptr));  // waiting holds no memory
  Result<Iteration::Step> step = iteration->iteration.Next(std::chrono::milliseconds(wait_ms));
  if (!step.ok()) return Fail(step.status(), error);
  if (std::holds_alternative<Iteration::Waiting>(*step)) return PENSTOCK_WAITING;
  if (std::holds_alternative<Iteration::Ended>(*step)) return PENSTOCK_ENDED;
  auto& found = std::get<Iteration::Element>(*step);
  if (iteration->run == nullptr || iteration->run->batch != found.batch) {
    Drop(std::exchange(iteration->run, nullptr));
    iteration->run = MakeRun(std::move(found.batch));
  }
  const PenstockRun& run = *iteration->run;
  *element = {iteration->run, run.columns.data(), run.columns.size(), found.first, found.end, found.batched ? 1 : 0};
  return 0;
}

int32_t Save(PenstockIteration* iteration, PenstockText text) {
  Result<std::string> state = iteration->iteration.Save();
  if (!state.ok()) return Fail(state.status(), text);
  Put(text, *state);
  return 0;
}

int32_t Restore(PenstockIteration* iteration, const char* state, uint64_t size, PenstockText error) {
  const Status restored = iteration->iteration.Restore(std::string(state, size));
  return restored.ok() ? 0 : Fail(restored, error);
}

void End(PenstockIteration* iteration) {
  Drop(iteration->run);
  delete iteration;
}

uint32_t Copy(const void* from, void* to, uint64_t size, uint32_t before, uint64_t whole) {
  return CopyWithCrc32c({static_cast<const std::byte*>(from), size}, static_cast<std::byte*>(to), before, whole);
}

constexpr PenstockAbi kAbi = {PENSTOCK_ABI_VERSION, sizeof(PenstockAbi), &Find, &Release, &Begin, &Next, &Save, &Restore, &End, &Keep, &Drop, &Copy};

}  // namespace

void BindTfAbi(nb::module_& m) {
  nb::class_<Iterations>(m, "Iterations");
  m.def("tf_abi", [] { return reinterpret_cast<uintptr_t>(&kAbi); });
  m.def("end_tf_iterations", &EndIterations);
}

}  // namespace penstock::python
