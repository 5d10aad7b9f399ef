// How a job reads, and how its lanes and batches are cut.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock {

enum class Mode : uint8_t { kShared = 0, kStrict = 1, kReplicated = 2, kSharded = 3 };
std::string_view Name(Mode mode);
Result<Mode> ModeFromName(std::string_view name);  // tf.data service's synonyms too: "distributed_epoch", "parallel_epochs"…

enum class Even : uint8_t { kAuto = 0, kDrop = 1, kPad = 2, kUneven = 3 };
Result<Even> EvenFromName(std::string_view name);

// What a consumer that is started anew, and restores nothing, finds of rows that were delivered before.
enum class OnRestart : uint8_t { kError = 0, kContinue = 1, kRestart = 2 };
Result<OnRestart> OnRestartFromName(std::string_view name);

// What becomes of the lanes of a consumer whose lease ended. Auto: hold where consumers are declared, else redeliver.
enum class OnDeath : uint8_t { kAuto = 0, kHold = 1, kRedeliver = 2 };
Result<OnDeath> OnDeathFromName(std::string_view name);

// How blocks that cross a network are compressed. Auto: where the link is what a loop waits for, and it comes sooner so. Unknown: a reader that
// cannot unpack; never an option.
enum class WireCompression : uint8_t { kUnknown = 0, kNone = 1, kAuto = 2, kLz4 = 3, kZstd = 4 };
Result<WireCompression> WireCompressionFromName(std::string_view name);

enum class Purity : uint8_t { kPure = 0, kPureIdentity = 1, kImpure = 2 };
std::string_view Name(Purity purity);

inline constexpr uint32_t kEndlessLanes = std::numeric_limits<uint32_t>::max();

// A function of plan and manifest alone, never of machines. Made by the worker that listed the inputs; the dispatcher stores it.
struct Layout {
  uint32_t lanes = 0;   // of an epoch; kEndlessLanes: no end
  bool serial = false;  // one lane, granted in ranges of `serial_range` rows
  uint64_t serial_range = 0;
  uint64_t batch = 0;           // n: rows a batch; 0: the loop gets rows one by one
  uint32_t mix = 1;             // a batch is `mix` groups of batch/mix rows, from different lanes where it can be
  bool drop_remainder = false;  // the short last batch of the epoch is dropped (and counted)
  bool pad = false;             // ragged dimensions are padded when the batch is made
  Purity purity = Purity::kPure;
  uint64_t state_bytes = 0;  // what the operators of one open lane may hold
  Spec row_spec;

  uint64_t group_rows() const { return batch == 0 ? 1 : batch / mix; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace penstock
