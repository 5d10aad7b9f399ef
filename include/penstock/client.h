// What a C++ trainer includes: connect, register a plan, read batches.
//
//   auto client = Client::Connect({.service = "penstock://127.0.0.1:5050"});
//   auto reader = (*client)->Distribute(plan, {.job_name = "train"});
//   for (;;) {
//     auto batch = (*reader)->Next();
//     if (!batch.ok()) …;                 // what happened, and what to do
//     if (!batch->has_value()) break;     // the epoch has ended
//     Use(**batch);
//   }
//
// Threads: a Client and its Readers share one I/O thread; the methods of one Reader are called by one thread at a time. A Batch may be used
// and destroyed on any thread, also after its Reader and Client are gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/plan.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock {

class CodeHost;

struct ConnectOptions {
  std::string service = {};   // "penstock://host:port" ("grpc://" and "host:port" too) | "unix:/path"
  std::string token = {};     // "" where the service has none
  std::string tls_ca = {};    // PEM files; "" for a service that speaks in plain
  std::string tls_cert = {};  // where the service asks for certificates
  std::string tls_key = {};
  std::chrono::milliseconds timeout{30'000};  // for the service to be there and say hello
  bool shared_memory = true;                  // false: blocks come over the socket even on one host
};

struct ReadOptions {
  std::string job_name = {};  // "": anonymous and unique
  Mode mode = Mode::kShared;
  uint64_t seed = 0;
  uint32_t epochs = 1;  // 0: unbounded, one epoch a StartEpoch()
  Even even = Even::kAuto;
  std::optional<uint32_t> index = {};                // with `consumers`: which of them this is
  uint32_t consumers = 0;                            // 0: not declared
  uint64_t memory = 256ULL << 20;                    // of blocks held by this reader
  std::chrono::milliseconds stall_timeout{600'000};  // Next() gives up with Stalled, saying what it waits for
  uint32_t places = 0;                               // strict: of the ring; 0: as many as consumers
  OnRestart on_restart = OnRestart::kError;          // an earlier start of this consumer delivered rows, and nothing is restored
  OnDeath on_death = OnDeath::kAuto;
  uint64_t attempt = 0;  // of the launcher: how often it started the ranks anew
  WireCompression compression = WireCompression::kAuto;
};

// Where a batch stands: how many batches this reader had with it (rows, where it gets rows one by one), since the job was last restored.
struct BatchTag {
  Generation generation{};
  uint64_t step = 0;
  friend bool operator==(const BatchTag&, const BatchTag&) = default;
};

struct StateOptions {
  enum class Scope : uint8_t { kJob, kRank };
  std::optional<BatchTag> at = {};  // one of the last 64 batches; nullopt: the last one
  uint64_t behind = 0;              // so many batches (or rows) before that
  Scope scope = Scope::kJob;        // the position of all consumers, or this one's part of it
  std::chrono::milliseconds timeout{60'000};
};

// The rows of one leaf in a batch. Buffers as in the block: offsets (int64, from 0) of each ragged level, then values.
struct ColumnData {
  std::vector<std::span<const std::byte>> buffers;
  std::span<const std::byte> values() const { return buffers.back(); }
};

// Which rows of which lane a batch is made of.
struct Piece {
  LaneKey lane;
  Cursor first;
  Cursor end;  // after the last
  uint64_t rows = 0;
};

// What the loop receives. Copies share the memory; the last one gives it back to the worker.
class Batch {
 public:
  uint64_t rows() const { return rows_; }
  const Spec& spec() const { return *spec_; }  // of a row
  const ColumnData& column(size_t i) const { return columns_[i]; }
  size_t column_count() const { return columns_.size(); }
  const std::vector<Piece>& pieces() const { return pieces_; }
  // Keeps the memory of all columns alive; bindings tie tensors to it. Thread-safe to drop.
  const std::shared_ptr<const void>& hold() const { return hold_; }
  BatchTag tag() const { return tag_; }

  // Batches are made by readers.
  void Stamp(BatchTag tag) { tag_ = tag; }
  Batch(uint64_t rows, std::shared_ptr<const Spec> spec, std::vector<ColumnData> columns, std::vector<Piece> pieces, std::shared_ptr<const void> hold)
      : rows_(rows), spec_(std::move(spec)), columns_(std::move(columns)), pieces_(std::move(pieces)), hold_(std::move(hold)) {}

 private:
  uint64_t rows_;
  std::shared_ptr<const Spec> spec_;
  std::vector<ColumnData> columns_;
  std::vector<Piece> pieces_;
  std::shared_ptr<const void> hold_;
  BatchTag tag_;
};

struct ReaderStats {
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t bytes = 0;                  // of blocks, as they lie in memory…
  uint64_t wire_bytes = 0;             // …and what they took on sockets: nothing in shared memory, fewer where they were compressed
  std::chrono::nanoseconds waited{0};  // in Next(), for data
  uint64_t lanes_done = 0;
  uint64_t reopened = 0;          // lanes that moved to another worker…
  uint64_t hedged = 0;            // …these since they were behind the others
  uint64_t dropped_rows = 0;      // by rule: drop_remainder, even=drop
  uint64_t repeated_batches = 0;  // mode shared: the loop's last batch once more, so that all end at one step
  uint64_t bytes_held = 0;
  std::string waiting_for;  // in words; "" when data is ready
};

class Reader {
 public:
  virtual ~Reader() = default;  // closes

  // The next batch of this epoch; nullopt at its end, which stays until StartEpoch. Where the plan does not batch (layout().batch == 0), a
  // batch is a run of one or more rows that the caller hands out one by one. Waits at most `wait`: then Deadline, and nothing is lost.
  virtual Result<std::optional<Batch>> Next(std::chrono::milliseconds wait = std::chrono::milliseconds::max()) = 0;
  // Where the plan does not batch: the last `rows` rows of the last run were not handed out. They go to other consumers when this one starts
  // the next epoch or closes, which is all it may do after this.
  virtual void GiveBack(uint64_t rows) = 0;
  // Goes on to the next epoch (the first is started by itself), or to a later one. False: the job has no more. Gives back lanes of an epoch left
  // early.
  virtual Result<bool> StartEpoch(std::optional<Epoch> later = {}) = 0;

  // What was delivered, as JSON (docs/design/positions.md): of all consumers, which the dispatcher asks for their part, or of this one.
  virtual Result<std::string> State(StateOptions options = {}) = 0;
  // Goes on after that state, with all consumers of the job: waits until each of them has restored. Rows that were on their way are dropped, and
  // come again if they are due. An error leaves the reader where it was.
  virtual Status Restore(const std::string& state) = 0;

  virtual const Layout& layout() const = 0;
  virtual const std::string& job_name() const = 0;
  virtual Epoch epoch() const = 0;
  virtual uint32_t epochs() const = 0;    // of the job; 0: unbounded
  virtual ReaderStats stats() const = 0;  // any thread
  virtual void Close() = 0;               // leaves the job; idempotent
};

// A connection to a service, by way of its dispatcher.
class Client {
 public:
  virtual ~Client() = default;
  static Result<std::shared_ptr<Client>> Connect(ConnectOptions options);

  virtual Result<std::string> Register(const Plan& plan) = 0;  // the dataset's id; idempotent
  virtual Result<Plan> GetDataset(const std::string& dataset_id) = 0;
  // The id of the dataset that the job of this name reads: how consumers learn it that did not register it. NotFound until somebody has joined.
  virtual Result<std::string> FindJob(const std::string& job_name) = 0;
  virtual Result<std::unique_ptr<Reader>> Distribute(const Plan& plan, ReadOptions options) = 0;  // registers and joins
  virtual Result<std::unique_ptr<Reader>> Join(const std::string& dataset_id, ReadOptions options) = 0;
};

// The same plan in this process, without a service: same rows, same batches, lane after lane.
// `code` runs what of the plan is not native (engine/code.h); without it such plans are refused.
Result<std::unique_ptr<Reader>> ReadInline(const Plan& plan, ReadOptions options, std::shared_ptr<CodeHost> code = nullptr);

}  // namespace penstock
