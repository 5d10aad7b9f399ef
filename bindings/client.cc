// Client and Reader: blocking calls without the GIL, in slices, so that Ctrl-C works.
#include "penstock/client.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <atomic>

#include "base/caught.h"
#include "batch.h"
#include "bind.h"
#include "client/iterations.h"
#include "client/join_alike.h"
#include "client/recent_batches.h"
#include "client/stopped.h"
#include "code.h"
#include "engine/pipeline.h"
#include "errors.h"
#include "gil.h"
#include "spec.h"
#include "wait.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using std::chrono::milliseconds;

milliseconds Milliseconds(double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1000)); }

class PyReader {
 public:
  PyReader(std::unique_ptr<Reader> reader, bool computes, Epochs::From from = Epochs::From::kJoined)
      : reader_(std::move(reader)), epochs_(std::make_shared<Epochs>(reader_, from)), computes_(computes), recent_(reader_->layout()) {}
  PyReader(PyReader&&) = default;
  ~PyReader() {
    if (reader_ == nullptr) return;
    const GilReleased released;
    epochs_.reset();
    reader_.reset();
  }

  // None at the epoch's end. What is ready is taken with the GIL held; an inline reader computes in the call, so it never is.
  nb::object Next(uint64_t iteration) {
    const auto next = [&](milliseconds wait) -> Result<std::optional<Batch>> {
      try {
        return epochs_->Next(iteration, wait);
      } catch (const std::bad_alloc&) {  // an inline reader's: others hear of it from the thread that they wait for
        return CaughtStatus();
      } catch (const std::length_error&) {
        return CaughtStatus();
      }
    };
    std::optional<Batch> value = Unwrap(InSlices(iteration, next, !computes_));
    if (!value.has_value()) return nb::none();
    recent_.Add(*value);
    return nb::cast(std::move(*value));
  }

  // One more row of the run; false: it has no more, or the reader was closed.
  bool TakeRow(uint64_t iteration) {
    return Unwrap(InSlices(
        iteration, [&](milliseconds wait) { return epochs_->TakeRow(iteration, wait); }, true));
  }

  nb::list PiecesAt(uint64_t address) const {
    const auto pieces = recent_.PiecesAt(address);
    return pieces ? PiecesToPython(*pieces) : nb::list();
  }

  // (generation, step) of the batch, or of the row where rows are handed out one by one; None where no batch has memory there.
  nb::object TagAt(uint64_t address) const {
    const auto tag = recent_.TagAt(address);
    if (!tag) return nb::none();
    return nb::make_tuple(Raw(tag->generation), tag->step);
  }

  std::string State(std::optional<std::pair<uint32_t, uint64_t>> at, uint64_t behind, bool rank, double timeout) {
    StateOptions options;
    if (at) options.at = BatchTag{Generation{at->first}, at->second};
    options.behind = behind;
    options.scope = rank ? StateOptions::Scope::kRank : StateOptions::Scope::kJob;
    options.timeout = Milliseconds(timeout);
    return Unwrap(Interruptible([epochs = epochs_, options] { return epochs->State(options); }));
  }

  void Restore(std::string state) {
    Unwrap(Interruptible([epochs = epochs_, state = std::move(state)]() -> Result<bool> {
      PENSTOCK_TRY(epochs->Restore(state));
      return true;
    }));
  }

  // An iteration starts; its number, or None: the job has no more epochs.
  std::optional<uint64_t> Begin() {
    const std::optional<uint64_t> iteration = Unwrap(Interruptible([epochs = epochs_] { return epochs->Begin(); }));
    if (iteration) stops_->begun = *iteration;
    return iteration;
  }

  void SetEpoch(uint32_t epoch) { epochs_->SetNext(Epoch{epoch}); }

  // Any thread: whoever waits in Next() is told that it is over. For threads that are not Python's own, which cannot be let into an interpreter that
  // ends.
  void Interrupt() { stops_->all = true; }
  // Any thread: whoever waits for an element of the last iteration, or one before, is told that it was left. The next one reads on.
  void Leave() { stops_->left = stops_->begun.load(); }

  void Close() {
    const GilReleased released;
    epochs_->Close();
  }

  nb::dict Stats() const {
    ReaderStats stats = reader_->stats();
    nb::dict out;
    out["rows"] = stats.rows;
    out["batches"] = stats.batches;
    out["bytes"] = stats.bytes;
    out["wire_bytes"] = stats.wire_bytes;
    out["waited"] = std::chrono::duration<double>(stats.waited).count();
    out["lanes_done"] = stats.lanes_done;
    out["reopened"] = stats.reopened;
    out["hedged"] = stats.hedged;
    out["dropped_rows"] = stats.dropped_rows;
    out["repeated_batches"] = stats.repeated_batches;
    out["bytes_held"] = stats.bytes_held;
    out["waiting_for"] = stats.waiting_for;
    return out;
  }

  const Reader& reader() const { return *reader_; }
  const std::shared_ptr<Epochs>& epochs() const { return epochs_; }

 private:
  struct Stops {
    std::atomic<bool> all = false;
    std::atomic<uint64_t> begun = 0;  // the last iteration; they count from 1
    std::atomic<uint64_t> left = 0;   // up to this one
  };

  // What `call` returns when it has waited long enough. At first it does not wait, and has the GIL, where it may.
  template <class Call>
  auto InSlices(uint64_t iteration, Call call, bool at_once) -> decltype(call(kSlice)) {
    auto result = at_once ? call(milliseconds(0)) : Waiting(call);
    while (!result.ok() && result.status().code() == Code::kDeadline) {
      CheckSignals();
      if (stops_->all) return Status(Code::kCancelled, "the program ends, and its reader with it");
      if (iteration <= stops_->left) return Status(Code::kCancelled, "the loop has left this iteration; begin another to read on");
      result = Waiting(call);
    }
    return result;
  }

  template <class Call>
  static auto Waiting(Call call) {
    const GilReleased released;
    return call(kSlice);
  }

  std::shared_ptr<Reader> reader_;
  std::shared_ptr<Epochs> epochs_;
  std::unique_ptr<Stops> stops_ = std::make_unique<Stops>();
  bool computes_;
  RecentBatches recent_;
};

ReadOptions ToReadOptions(nb::dict values) {
  ReadOptions options;
  options.job_name = nb::cast<std::string>(values["job_name"]);
  options.mode = Unwrap(ModeFromName(nb::cast<std::string>(values["mode"])));
  options.even = Unwrap(EvenFromName(nb::cast<std::string>(values["even"])));
  options.seed = nb::cast<uint64_t>(values["seed"]);
  options.epochs = nb::cast<uint32_t>(values["epochs"]);
  options.index = nb::cast<std::optional<uint32_t>>(values["index"]);
  options.consumers = nb::cast<uint32_t>(values["consumers"]);
  options.memory = nb::cast<uint64_t>(values["memory"]);
  options.stall_timeout = Milliseconds(nb::cast<double>(values["stall_timeout"]));
  options.places = nb::cast<uint32_t>(values["places"]);
  options.on_restart = Unwrap(OnRestartFromName(nb::cast<std::string>(values["on_restart"])));
  options.on_death = Unwrap(OnDeathFromName(nb::cast<std::string>(values["on_death"])));
  options.compression = Unwrap(WireCompressionFromName(nb::cast<std::string>(values["compression"])));
  options.attempt = nb::cast<uint64_t>(values["attempt"]);
  return options;
}

// tls: ca, cert, key.
std::shared_ptr<Client> Connect(std::string service, std::string token, std::array<std::string, 3> tls, double timeout, bool shared_memory) {
  ConnectOptions options{.service = std::move(service),
                         .token = std::move(token),
                         .tls_ca = std::move(tls[0]),
                         .tls_cert = std::move(tls[1]),
                         .tls_key = std::move(tls[2]),
                         .timeout = Milliseconds(timeout),
                         .shared_memory = shared_memory};
  return Unwrap(Interruptible([options = std::move(options)] { return Client::Connect(options); }));
}

std::string Register(const std::shared_ptr<Client>& client, const Plan& plan) {
  return Unwrap(Interruptible([client, plan] { return client->Register(plan); }));
}

Plan GetDataset(const std::shared_ptr<Client>& client, const std::string& dataset) {
  return Unwrap(Interruptible([client, dataset] { return client->GetDataset(dataset); }));
}

std::string FindJob(const std::shared_ptr<Client>& client, const std::string& job_name) {
  return Unwrap(Interruptible([client, job_name] { return client->FindJob(job_name); }));
}

PyReader Distribute(const std::shared_ptr<Client>& client, const Plan& plan, nb::dict options) {
  return {Unwrap(Interruptible([client, plan, options = ToReadOptions(options)] { return client->Distribute(plan, options); })), false};
}

PyReader Inline(const Plan& plan, nb::dict options) {
  std::shared_ptr<CodeHost> code = Unwrap(CheckPlan(plan)).runs_code ? MakeInlineHost(plan) : nullptr;
  return {Unwrap(Interruptible([plan, options = ToReadOptions(options), code = std::move(code)] { return ReadInline(plan, options, code); })), true};
}

// Its n-th iteration is the job's n-th epoch.
PyReader JoinAny(const std::shared_ptr<Client>& client, const std::string& dataset, nb::dict options) {
  auto reader = Unwrap(Interruptible([client, dataset, options = ToReadOptions(options)] { return JoinAlike(*client, dataset, options); }));
  return {std::move(reader), false, Epochs::From::kFirst};
}

StateOptions::Scope ScopeOf(bool rank) { return rank ? StateOptions::Scope::kRank : StateOptions::Scope::kJob; }

// For the op library's datasets of this name, as long as what is returned lives, or one of them.
std::shared_ptr<Iterations> OfferReader(const PyReader& reader, const std::string& name, bool rank) {
  auto iterations = std::make_shared<Iterations>(reader.epochs(), ScopeOf(rank));
  Offer(name, iterations);
  return iterations;
}

std::shared_ptr<Iterations> OfferJoin(const std::shared_ptr<Client>& client, const std::string& name, const std::string& dataset, nb::dict options,
                                      bool alone) {
  Iterations::Join join = [client, dataset, options = ToReadOptions(options)]() -> Result<std::shared_ptr<Reader>> {
    PENSTOCK_ASSIGN(std::shared_ptr<Reader> reader, JoinAlike(*client, dataset, options));
    return reader;
  };
  const auto kind = alone ? Iterations::Kind::kAlone : Iterations::Kind::kShared;
  auto iterations = std::make_shared<Iterations>(kind, std::move(join), StateOptions::Scope::kJob);
  Offer(name, iterations);
  return iterations;
}

}  // namespace

void BindClient(nb::module_& m) {
  nb::class_<PyReader>(m, "Reader")
      .def("next", &PyReader::Next, nb::arg("iteration"))
      .def("take_row", &PyReader::TakeRow, nb::arg("iteration"))
      .def("begin", &PyReader::Begin)
      .def("set_epoch", &PyReader::SetEpoch, nb::arg("epoch"), nb::call_guard<GilReleased>())
      .def("offer", &OfferReader, nb::arg("name"), nb::arg("rank"))
      .def("interrupt", &PyReader::Interrupt)
      .def("leave", &PyReader::Leave)
      .def("close", &PyReader::Close)
      .def("stats", &PyReader::Stats)
      .def("pieces_at", &PyReader::PiecesAt, nb::arg("address"))
      .def("tag_at", &PyReader::TagAt, nb::arg("address"))
      .def("state", &PyReader::State, nb::arg("at").none(), nb::arg("behind"), nb::arg("rank"), nb::arg("timeout"))
      .def("restore", &PyReader::Restore, nb::arg("state"))
      .def_prop_ro("epoch", [](const PyReader& self) { return Raw(self.reader().epoch()); })
      .def_prop_ro("job_name", [](const PyReader& self) { return self.reader().job_name(); })
      .def_prop_ro("batch", [](const PyReader& self) { return self.reader().layout().batch; })
      .def_prop_ro("lanes", [](const PyReader& self) { return self.reader().layout().lanes; })
      .def_prop_ro("structure", [](const PyReader& self) { return StructureToPython(self.reader().layout().row_spec.structure); });
  nb::class_<Client>(m, "Client")
      .def_static("connect", &Connect, nb::arg("service"), nb::arg("token"), nb::arg("tls"), nb::arg("timeout"), nb::arg("shared_memory"))
      .def("register", &Register, nb::arg("plan"))
      .def("get_dataset", &GetDataset, nb::arg("dataset"))
      .def("find_job", &FindJob, nb::arg("job_name"))
      .def("distribute", &Distribute, nb::arg("plan"), nb::arg("options"))
      .def("join", &JoinAny, nb::arg("dataset"), nb::arg("options"))
      .def("offer", &OfferJoin, nb::arg("name"), nb::arg("dataset"), nb::arg("options"), nb::arg("alone"));
  m.def("note_stopped", &NoteStopped, nb::arg("address"));
  m.def("read_inline", &Inline, nb::arg("plan"), nb::arg("options"));
}

}  // namespace penstock::python
