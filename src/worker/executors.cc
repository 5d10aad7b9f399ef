#include "worker/executors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::worker {
namespace {

using Json = nlohmann::json;

constexpr Duration kLoadWithin = std::chrono::minutes(5);  // libraries of a plan, on a busy machine

// What the child answers is somebody else's code's: a field that is missing or of another kind is an error, never an exception.
template <class T>
Result<T> Field(const Json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end()) return Status(Code::kExecutor, std::string("the executor's answer lacks '") + name + "'");
  if constexpr (std::is_same_v<T, std::string>) {
    if (field->is_string()) return field->get<T>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (field->is_boolean()) return field->get<T>();
  } else {
    if (field->is_number_unsigned()) return field->get<T>();
  }
  return Status(Code::kExecutor, std::string("the executor's answer has '") + name + "' of another kind than expected");
}

void Add(Status& status, const std::string& name, const std::string& value) { status = std::move(status).With(name, value); }

// {"error": {"code", "message", "details": {…}}} as a status.
Status ToStatus(const Json& error) {
  const std::string message = error.is_object() ? error.value("message", "") : std::string();
  const std::string code = error.is_object() ? error.value("code", "") : std::string();
  Status status(code == "Mismatch"  ? Code::kMismatch
                : code == "Invalid" ? Code::kInvalid
                                    : Code::kExecutor,
                message.empty() ? "the executor failed and did not say why" : message);
  if (!error.is_object() || !error.contains("details") || !error["details"].is_object()) return status;
  for (const auto& [name, value] : error["details"].items()) {
    if (value.is_string()) Add(status, name, value.get<std::string>());
  }
  return status;
}

Result<Json> Parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status(Code::kExecutor, "the executor answered something that is not JSON");
  if (json.contains("error")) return ToStatus(json["error"]);
  return json;
}

Result<Cursor> ToCursor(const Json& json, const char* seq, const char* child) {
  Cursor cursor;
  PENSTOCK_ASSIGN(cursor.seq, Field<uint64_t>(json, seq));
  PENSTOCK_ASSIGN(cursor.child, Field<uint32_t>(json, child));
  return cursor;
}

Result<CodeWritten> ToWritten(const Json& json) {
  const auto crcs = json.find("crcs");
  if (crcs == json.end()) return CodeWritten{};
  CodeWritten written;
  for (const Json& crc : *crcs) {
    if (!crc.is_number_unsigned()) return Status(Code::kExecutor, "the executor's answer has a CRC that is none");
    written.crcs.push_back(crc.get<uint32_t>());
  }
  return written;
}

Result<CodeRows> ToRows(const Json& json) {
  CodeRows rows;
  PENSTOCK_ASSIGN(rows.rows, Field<uint64_t>(json, "rows"));
  PENSTOCK_ASSIGN(rows.first, ToCursor(json, "first_seq", "first_child"));
  PENSTOCK_ASSIGN(rows.end, ToCursor(json, "end_seq", "end_child"));
  PENSTOCK_ASSIGN(rows.has_cursors, Field<bool>(json, "has_cursors"));
  PENSTOCK_ASSIGN(rows.hungry, Field<bool>(json, "hungry"));
  PENSTOCK_ASSIGN(rows.ended, Field<bool>(json, "ended"));
  PENSTOCK_ASSIGN(rows.again, Field<bool>(json, "again"));
  PENSTOCK_ASSIGN(rows.held_bytes, Field<uint64_t>(json, "held_bytes"));
  if (json.contains("written")) {
    PENSTOCK_ASSIGN(rows.written, ToWritten(json["written"]));
  }
  if (!json.contains("lengths") || !json["lengths"].is_array()) return Status(Code::kExecutor, "the executor's answer lacks 'lengths'");
  uint64_t total = 0;
  for (const Json& length : json["lengths"]) {
    if (!length.is_number_unsigned()) return Status(Code::kExecutor, "the executor's answer has a length that is none");
    rows.lengths.push_back(length.get<uint64_t>());
    if (rows.lengths.back() > kMaxBlock || (total += rows.lengths.back()) > kMaxBlock) {
      return Status(Code::kTooLarge, "a block of user code is over the cap of " + std::to_string(kMaxBlock) + " bytes");
    }
  }
  return rows;
}

Json ToJson(std::span<const BufferPlace> places) {
  Json pairs = Json::array();
  for (const BufferPlace& place : places) pairs.push_back({place.offset, place.length});
  return pairs;
}

Json ToJson(const Structure& structure) {
  if (structure.kind == Structure::Kind::kLeaf) return nullptr;
  Json node{{"children", Json::array()}};
  if (structure.kind == Structure::Kind::kDict) node["names"] = structure.names;
  for (const Structure& child : structure.children) node["children"].push_back(ToJson(child));
  return node;
}

Json ToJson(const Spec& spec) {
  Json columns = Json::array();
  for (const ColumnSpec& column : spec.columns) columns.push_back({column.name, Name(column.dtype), column.shape});
  return {{"columns", std::move(columns)}, {"structure", ToJson(spec.structure)}};
}

}  // namespace

// A process, and which segments it has mapped.
class JobExecutors::Executor {
 public:
  Executor(std::shared_ptr<ExecutorProcess> process, std::shared_ptr<SegmentTable> table) : process_(std::move(process)), table_(std::move(table)) {}

  Result<Json> Ask(Json message, Duration within, std::string_view bytes = {}, const Extent* extent = nullptr) {
    const uint64_t id = next_id_++;
    message["id"] = id;
    ExecutorMessage call{.text = {}, .bytes = bytes};
    std::shared_ptr<Segment> segment;
    if (extent != nullptr) PENSTOCK_TRY(Show(*extent, message, call, segment));
    call.text = message.dump();
    PENSTOCK_ASSIGN(const std::string answer, process_->Call(id, call, within));
    return Parse(answer);
  }
  void Close(uint64_t lane) { process_->Tell({.text = Json{{"id", 0}, {"op", "close"}, {"lane", lane}}.dump()}); }
  bool alive() const { return process_->alive(); }
  void Kill() { process_->Kill(); }

  std::atomic<uint32_t> lanes{0};

 private:
  // Says where the extent lies; a segment that the process has not seen comes along, and those that are gone it lets go of.
  Status Show(const Extent& extent, Json& message, ExecutorMessage& call, std::shared_ptr<Segment>& segment) {
    const SegmentId id = SegmentOf(extent.tag());
    segment = table_->Find(id);
    if (segment == nullptr) return Status(Code::kUnavailable, "the memory of a block was retired while user code worked on it").With("guilty", "0");
    const std::lock_guard lock(mutex_);
    Json dropped = Json::array();
    for (auto known = segments_.begin(); known != segments_.end();) {
      if (known->second.expired()) {
        dropped.push_back(static_cast<uint32_t>(known->first));
        known = segments_.erase(known);
      } else {
        ++known;
      }
    }
    if (!dropped.empty()) message["drop"] = std::move(dropped);
    message["segment"] = static_cast<uint32_t>(id);
    message["offset"] = OffsetOf(extent.tag());
    message["bytes"] = extent.size();
    if (segments_.emplace(id, segment).second) {
      message["map"] = segment->memory().size();
      call.descriptors.push_back(segment->descriptor());
    }
    return {};
  }

  const std::shared_ptr<ExecutorProcess> process_;
  const std::shared_ptr<SegmentTable> table_;
  std::atomic<uint64_t> next_id_{1};
  std::mutex mutex_;
  std::unordered_map<SegmentId, std::weak_ptr<Segment>> segments_;
};

class JobExecutors::Lane final : public CodeLane {
 public:
  // The executor has counted it.
  Lane(std::shared_ptr<const JobExecutors> host, std::shared_ptr<Executor> executor, CodeOpen open, uint64_t number)
      : host_(std::move(host)), executor_(std::move(executor)), open_(std::move(open)), number_(number) {}
  ~Lane() override {
    executor_->Close(number_);
    --executor_->lanes;
  }

  Result<CodeRows> Fill(const CodeWant& want, const Extent* input, bool input_over, const CodeRoom* room) override {
    Json message{{"op", "fill"},        {"lane", number_},           {"target", want.target}, {"cap", want.cap},         {"group", want.group_rows},
                 {"phase", want.phase}, {"by_group", want.by_group}, {"to", want.to},         {"input_over", input_over}};
    if (room != nullptr) message["room"] = {{"rows", room->rows}, {"lengths", room->lengths}, {"places", ToJson(room->places)}};
    auto answer = executor_->Ask(std::move(message), host_->options_.timeout, {}, room != nullptr ? &room->block : input);
    if (!answer.ok()) return host_->Explain(answer.status(), &open_.from);
    auto rows = ToRows(*answer);
    if (!rows.ok()) return host_->Explain(rows.status(), &open_.from);
    open_.from = rows->rows > 0 ? rows->first : rows->end;
    return rows;
  }

  Result<CodeWritten> Write(std::span<const BufferPlace> places, const Extent& block) override {
    Json message{{"op", "write"}, {"lane", number_}, {"places", ToJson(places)}};
    const auto answer = executor_->Ask(std::move(message), host_->options_.timeout, {}, &block);
    if (!answer.ok()) return host_->Explain(answer.status(), &open_.from);
    auto written = ToWritten(*answer);
    return written.ok() ? written : host_->Explain(written.status(), &open_.from);
  }

 private:
  const std::shared_ptr<const JobExecutors> host_;
  const std::shared_ptr<Executor> executor_;
  CodeOpen open_;  // `from` moves along
  const uint64_t number_;
};

JobExecutors::~JobExecutors() { Kill(); }

Result<std::unique_ptr<CodeLane>> JobExecutors::Open(const CodeOpen& open) {
  static std::atomic<uint64_t> next_lane{1};
  PENSTOCK_ASSIGN(const std::shared_ptr<Executor> executor, Choose());
  const uint64_t number = next_lane++;
  auto lane = std::make_unique<Lane>(shared_from_this(), executor, open, number);
  Json message{{"op", "open"},
               {"lane", number},
               {"nodes", open.nodes},
               {"seed", open.seed},
               {"epoch", Raw(open.key.epoch)},
               {"replica", Raw(open.key.replica)},
               {"ordinal", Raw(open.key.lane)},
               {"part", open.lane},
               {"parts", open.lanes},
               {"from_seq", open.from.seq},
               {"from_child", open.from.child}};
  if (open.input != nullptr) message["input"] = ToJson(*open.input);
  const auto answer = executor->Ask(std::move(message), kLoadWithin);
  if (!answer.ok()) return Explain(answer.status(), nullptr);
  return std::unique_ptr<CodeLane>(std::move(lane));
}

// The one with fewest lanes; a new one where all have some and there may be more. The lane counts before anybody else chooses: two that are opened
// at once would share a process, where one waits for what the other does.
Result<std::shared_ptr<JobExecutors::Executor>> JobExecutors::Choose() {
  const std::lock_guard lock(mutex_);
  if (killed_) return Status(Code::kCancelled, "the worker is stopping");
  std::erase_if(executors_, [](const auto& executor) { return !executor->alive(); });
  const auto least = std::min_element(executors_.begin(), executors_.end(), [](const auto& a, const auto& b) { return a->lanes < b->lanes; });
  if (least != executors_.end() && ((*least)->lanes == 0 || executors_.size() >= options_.processes)) {
    ++(*least)->lanes;
    return *least;
  }
  PENSTOCK_ASSIGN(auto process, ExecutorProcess::Start(options_));
  auto executor = std::make_shared<Executor>(std::move(process), table_);
  const auto answer = executor->Ask(Json{{"op", "plan"}}, kLoadWithin, plan_);
  if (!answer.ok()) return answer.status();
  executors_.push_back(executor);
  ++executor->lanes;
  return executor;
}

void JobExecutors::Kill() {
  const std::lock_guard lock(mutex_);
  killed_ = true;
  for (const auto& executor : executors_) executor->Kill();
  executors_.clear();
}

// Where it happened: what the loop is told. `from`: rows were made from there on; null: none were.
Status JobExecutors::Explain(Status error, const Cursor* from) const {
  Add(error, "worker", options_.worker);
  if (error.detail("seq").empty() && from != nullptr) Add(error, "seq", std::to_string(from->seq));
  return error;
}

}  // namespace penstock::worker
