// A job's position and one consumer's part of it, and their JSON: what users keep in checkpoints (docs/design/positions.md).
//
// Version 1 stays readable for ever: tests/states holds files of it. Unknown keys are ignored, an unknown version is refused by name, and
// everything else is checked: an error names the field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/delivered.h"
#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/plan.h"
#include "penstock/status.h"
#include "plan/ring_position.h"

namespace penstock {

// Delivered rows of several epochs.
struct History {
  // Of a position and a base: all epochs before are whole. Of a part: it says nothing of them (a consumer does not keep them for ever).
  Epoch epochs_done{};
  std::map<Epoch, Delivered> epochs;  // none is empty

  void Add(const LaneKey& lane, Cursor from, Cursor to);
  // This and what a part delivered. The part's epochs_done is not looked at.
  void MergePart(const History& part);
  // This without what parts delivered; an epoch that was whole (with `lanes` lanes) is named one by one again where a part names it.
  void SubtractPart(const History& part, uint32_t lanes);
  // Nothing of the epochs before this one comes any more, whatever was delivered of them.
  void LeaveBehind(Epoch first);
  // Epochs with all lanes whole, from epochs_done on, become epochs_done. Not for endless ones.
  void Settle(uint32_t lanes);
  friend bool operator==(const History&, const History&) = default;
};

struct Position {
  enum class Kind : uint8_t { kPosition, kPart };
  Kind kind = Kind::kPosition;
  std::string job;       // its name
  std::string dataset;   // the fingerprint
  std::string rows;      // RowsFingerprint: of the plan without its last batching
  std::string manifest;  // its hash
  Mode mode = Mode::kShared;
  uint64_t seed = 0;
  Generation generation{};
  uint64_t tag = 0;                  // the step: batches that the consumer had in this generation
  uint32_t consumers = 0;            // declared; 0: not declared
  uint32_t index = 0;                // of a part
  uint64_t batch = 0;                // rows a batch; 0: the loop gets rows one by one
  uint32_t places = 0;               // strict: of the ring
  Epoch epoch{};                     // that was being read…
  bool ended = false;                // …up to its END (of a part)
  uint64_t seated_at = 0;            // of a part: the step at which its consumer took the seat of one before it, whose rows no part has; 0: none
  History delivered;                 // of a part: in this generation
  History base;                      // of a part: where this generation began
  std::optional<RingPosition> ring;  // strict: it is the whole position, and `delivered` is empty but for epochs_done
  friend bool operator==(const Position&, const Position&) = default;
};

std::string ToJson(const Position& position);
Result<Position> ParsePosition(std::string_view json);

// The fingerprint of what makes rows: another batch size is the same rows.
Result<std::string> RowsFingerprint(const Plan& plan);

}  // namespace penstock
