// Version 1 of the state that users keep.
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "plan/position.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kVersion = 1;
constexpr size_t kMaxState = size_t{64} << 20;

// ---- writing

Json EpochsJson(const History& history) {
  Json epochs = Json::object();
  for (const auto& [epoch, rows] : history.epochs) {
    Json parts = Json::object();
    for (const auto& [lane, intervals] : rows.parts()) parts[std::to_string(Raw(lane))] = Delivered::RowsText(intervals);
    epochs[std::to_string(Raw(epoch))] = {{"lanes", rows.LanesText()}, {"parts", std::move(parts)}};
  }
  return epochs;
}

Json RingJson(const RingPosition& ring) {
  Json places = Json::array();
  for (const auto& place : ring.ring) places.push_back({Raw(place.lane), CursorText(place.cursor)});
  Json tails = Json::array();
  for (const auto& tail : ring.tails) tails.push_back({Raw(tail.lane), CursorText(tail.first), tail.skipped, tail.rows});
  return {{"epoch", Raw(ring.epoch)}, {"turn", ring.turn},           {"places", std::move(places)},
          {"place", ring.place},      {"next_lane", ring.next_lane}, {"tails", std::move(tails)}};
}

// ---- reading

Status Wrong(const std::string& field, const std::string& what) {
  return Status(Code::kInvalid, "this is no state of penstock that can be restored: field '" + field + "' " + what).With("field", field);
}

template <class Number>
Result<Number> NumberOf(const Json& value, const std::string& field) {
  if (!value.is_number_unsigned()) return Wrong(field, "must be a whole number from 0 on");
  const auto number = value.get<uint64_t>();
  if (number > std::numeric_limits<Number>::max()) return Wrong(field, "is too large: " + std::to_string(number));
  return static_cast<Number>(number);
}

Result<Cursor> CursorOf(const Json& value, const std::string& field) {
  const auto cursor = value.is_string() ? ParseCursor(value.get_ref<const std::string&>()) : std::nullopt;
  if (!cursor) return Wrong(field, "must be a cursor such as \"600\" or \"600.2\"");
  return *cursor;
}

Result<LaneId> LaneOf(const Json& value, const std::string& field) {
  PENSTOCK_ASSIGN(const uint32_t lane, NumberOf<uint32_t>(value, field));
  if (lane == kEndlessLanes) return Wrong(field, "is no lane");
  return LaneId{lane};
}

// An id as the key of an object.
Result<uint32_t> IdOf(const std::string& key, const std::string& field) {
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id == kEndlessLanes)
    return Wrong(field, "has a key that is no number: '" + key + "'");
  return id;
}

// The fields of an object by name; `where` is its own name with a dot, or "".
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* name) const { return object_.contains(name); }
  std::string Path(const char* name) const { return where_ + name; }

  Result<const Json*> Get(const char* name, Json::value_t type, const char* words) const {
    const auto found = object_.find(name);
    if (found == object_.end()) return Wrong(Path(name), "is missing");
    if (found->type() != type) return Wrong(Path(name), std::string("must be ") + words);
    return &*found;
  }
  template <class Number>
  Result<Number> GetNumber(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) return Wrong(Path(name), "is missing");
    return NumberOf<Number>(*found, Path(name));
  }
  Result<std::string> GetText(const char* name) const {
    PENSTOCK_ASSIGN(const Json* text, Get(name, Json::value_t::string, "a text"));
    return text->get<std::string>();
  }

 private:
  const Json& object_;
  const std::string where_;
};

Result<Delivered> RowsOf(const Json& value, const std::string& where) {
  if (!value.is_object()) return Wrong(where, "must be an object");
  const Fields fields(value, where + ".");
  Delivered rows;
  PENSTOCK_ASSIGN(const std::string lanes, fields.GetText("lanes"));
  if (Status added = rows.AddLanesText(lanes); !added.ok()) return Wrong(fields.Path("lanes"), "is wrong: " + added.message());
  PENSTOCK_ASSIGN(const Json* parts, fields.Get("parts", Json::value_t::object, "an object"));
  for (const auto& [key, text] : parts->items()) {
    PENSTOCK_ASSIGN(const uint32_t lane, IdOf(key, fields.Path("parts")));
    const std::string field = fields.Path("parts") + "." + key;
    if (!text.is_string()) return Wrong(field, "must be a text");
    Status added = rows.AddRowsText(LaneId{lane}, text.get_ref<const std::string&>());
    if (!added.ok()) return Wrong(field, "is wrong: " + added.message());
  }
  return rows;
}

Result<History> HistoryOf(const Fields& fields) {
  History history;
  PENSTOCK_ASSIGN(const uint32_t done, fields.GetNumber<uint32_t>("epochs_done"));
  history.epochs_done = Epoch{done};
  PENSTOCK_ASSIGN(const Json* epochs, fields.Get("epochs", Json::value_t::object, "an object"));
  for (const auto& [key, value] : epochs->items()) {
    PENSTOCK_ASSIGN(const uint32_t epoch, IdOf(key, fields.Path("epochs")));
    if (epoch < done) return Wrong(fields.Path("epochs"), "names epoch " + key + ", which is before epochs_done");
    PENSTOCK_ASSIGN(Delivered rows, RowsOf(value, fields.Path("epochs") + "." + key));
    if (!rows.empty()) history.epochs[Epoch{epoch}] = std::move(rows);
  }
  return history;
}

Result<RingPosition> RingOf(const Json& value) {
  const Fields fields(value, "ring.");
  RingPosition ring;
  PENSTOCK_ASSIGN(const uint32_t epoch, fields.GetNumber<uint32_t>("epoch"));
  ring.epoch = Epoch{epoch};
  PENSTOCK_ASSIGN(ring.turn, fields.GetNumber<uint64_t>("turn"));
  PENSTOCK_ASSIGN(ring.place, fields.GetNumber<uint32_t>("place"));
  PENSTOCK_ASSIGN(ring.next_lane, fields.GetNumber<uint32_t>("next_lane"));
  PENSTOCK_ASSIGN(const Json* places, fields.Get("places", Json::value_t::array, "a list"));
  for (const Json& item : *places) {
    if (!item.is_array() || item.size() != 2) return Wrong("ring.places", "must be a list of [lane, \"cursor\"]");
    RingPosition::Place place;
    PENSTOCK_ASSIGN(place.lane, LaneOf(item[0], "ring.places"));
    PENSTOCK_ASSIGN(place.cursor, CursorOf(item[1], "ring.places"));
    ring.ring.push_back(place);
  }
  PENSTOCK_ASSIGN(const Json* tails, fields.Get("tails", Json::value_t::array, "a list"));
  for (const Json& item : *tails) {
    if (!item.is_array() || item.size() != 4) return Wrong("ring.tails", "must be a list of [lane, \"cursor\", skipped, rows]");
    RingPosition::Tail tail;
    PENSTOCK_ASSIGN(tail.lane, LaneOf(item[0], "ring.tails"));
    PENSTOCK_ASSIGN(tail.first, CursorOf(item[1], "ring.tails"));
    PENSTOCK_ASSIGN(tail.skipped, NumberOf<uint64_t>(item[2], "ring.tails"));
    PENSTOCK_ASSIGN(tail.rows, NumberOf<uint64_t>(item[3], "ring.tails"));
    ring.tails.push_back(tail);
  }
  if (!ring.ring.empty() && ring.place >= ring.ring.size()) return Wrong("ring.place", "is none of the places");
  return ring;
}

Status CheckVersion(const Json& json) {
  const auto version = json.find("penstock");
  if (version == json.end()) return Wrong("penstock", "(its version) is missing; was it saved by state_dict()?");
  PENSTOCK_ASSIGN(const uint64_t number, NumberOf<uint64_t>(*version, "penstock"));
  if (number == kVersion) return {};
  return Status(Code::kMismatch, "this state is of version " + std::to_string(number) + ", and this penstock reads version " +
                                     std::to_string(kVersion) + "; restore it with the penstock that saved it, or a later one");
}

Status ReadHead(const Fields& fields, Position& position) {
  PENSTOCK_ASSIGN(const std::string kind, fields.GetText("kind"));
  if (kind != "position" && kind != "part") return Wrong("kind", "must be \"position\" or \"part\", and is '" + kind.substr(0, 60) + "'");
  position.kind = kind == "part" ? Position::Kind::kPart : Position::Kind::kPosition;
  PENSTOCK_ASSIGN(position.job, fields.GetText("job"));
  PENSTOCK_ASSIGN(position.dataset, fields.GetText("dataset"));
  PENSTOCK_ASSIGN(position.rows, fields.GetText("rows"));
  PENSTOCK_ASSIGN(position.manifest, fields.GetText("manifest"));
  PENSTOCK_ASSIGN(const std::string mode, fields.GetText("mode"));
  auto known = ModeFromName(mode);
  if (!known.ok()) return Wrong("mode", "is wrong: " + known.status().message());
  position.mode = *known;
  PENSTOCK_ASSIGN(position.seed, fields.GetNumber<uint64_t>("seed"));
  PENSTOCK_ASSIGN(const uint32_t generation, fields.GetNumber<uint32_t>("generation"));
  position.generation = Generation{generation};
  PENSTOCK_ASSIGN(position.tag, fields.GetNumber<uint64_t>("tag"));
  PENSTOCK_ASSIGN(position.consumers, fields.GetNumber<uint32_t>("consumers"));
  PENSTOCK_ASSIGN(position.batch, fields.GetNumber<uint64_t>("batch"));
  if (fields.Has("places")) {
    PENSTOCK_ASSIGN(position.places, fields.GetNumber<uint32_t>("places"));
  }
  PENSTOCK_ASSIGN(const uint32_t epoch, fields.GetNumber<uint32_t>("epoch"));
  position.epoch = Epoch{epoch};
  return {};
}

Status ReadPart(const Fields& fields, Position& position) {
  PENSTOCK_ASSIGN(position.index, fields.GetNumber<uint32_t>("index"));
  if (fields.Has("ended")) {
    PENSTOCK_ASSIGN(const Json* ended, fields.Get("ended", Json::value_t::boolean, "true or false"));
    position.ended = ended->get<bool>();
  }
  if (fields.Has("seated_at")) {
    PENSTOCK_ASSIGN(position.seated_at, fields.GetNumber<uint64_t>("seated_at"));
  }
  if (position.consumers > 0 && position.index >= position.consumers) return Wrong("index", "is not below 'consumers'");
  PENSTOCK_ASSIGN(const Json* base, fields.Get("base", Json::value_t::object, "an object"));
  PENSTOCK_ASSIGN(position.base, HistoryOf(Fields(*base, "base.")));
  return {};
}

}  // namespace

std::string ToJson(const Position& position) {
  const bool part = position.kind == Position::Kind::kPart;
  Json json = {{"penstock", kVersion},
               {"kind", part ? "part" : "position"},
               {"job", position.job},
               {"dataset", position.dataset},
               {"rows", position.rows},
               {"manifest", position.manifest},
               {"mode", Name(position.mode)},
               {"seed", position.seed},
               {"generation", Raw(position.generation)},
               {"tag", position.tag},
               {"consumers", position.consumers}};
  if (part) json["index"] = position.index;
  json["batch"] = position.batch;
  if (position.places != 0) json["places"] = position.places;
  json["epoch"] = Raw(position.epoch);
  json["epochs_done"] = Raw(position.delivered.epochs_done);
  json["epochs"] = EpochsJson(position.delivered);
  if (part && position.ended) json["ended"] = true;
  if (part && position.seated_at != 0) json["seated_at"] = position.seated_at;
  if (part) json["base"] = {{"epochs_done", Raw(position.base.epochs_done)}, {"epochs", EpochsJson(position.base)}};
  if (position.ring) json["ring"] = RingJson(*position.ring);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Position> ParsePosition(std::string_view text) {
  if (text.size() > kMaxState) return Status(Code::kTooLarge, "a state of " + std::to_string(text.size()) + " bytes is no state of penstock");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status(Code::kInvalid, "this is no state of penstock: it is not a JSON object; pass what state_dict() gave");
  PENSTOCK_TRY(CheckVersion(json));
  const Fields fields(json, "");
  Position position;
  PENSTOCK_TRY(ReadHead(fields, position));
  PENSTOCK_ASSIGN(position.delivered, HistoryOf(fields));
  if (position.kind == Position::Kind::kPart) PENSTOCK_TRY(ReadPart(fields, position));
  if (fields.Has("ring")) {
    PENSTOCK_ASSIGN(const Json* ring, fields.Get("ring", Json::value_t::object, "an object"));
    PENSTOCK_ASSIGN(position.ring, RingOf(*ring));
  } else if (position.mode == Mode::kStrict) {
    return Wrong("ring", "is missing, and mode is strict");
  }
  return position;
}

}  // namespace penstock
