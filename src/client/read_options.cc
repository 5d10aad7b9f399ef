#include "client/read_options.h"

#include "base/name.h"
#include "plan/limits.h"

namespace penstock {

Status CheckReadOptions(const ReadOptions& options) {
  if (!options.job_name.empty()) PENSTOCK_TRY(CheckName("job_name", options.job_name));
  if (options.mode == Mode::kSharded) {
    return Status(Code::kInvalid, "mode '" + std::string(Name(options.mode)) + "' is not there yet; use shared, strict or replicated");
  }
  if (options.consumers > kMostConsumers) {
    return Status(Code::kInvalid,
                  std::to_string(options.consumers) + " consumers are more than the " + std::to_string(kMostConsumers) + " that a job may have");
  }
  const uint32_t index = options.index.value_or(0);
  if (options.consumers > 0 && index >= options.consumers) {
    return Status(Code::kInvalid,
                  "index " + std::to_string(index) + " is not below the " + std::to_string(options.consumers) + " declared consumers");
  }
  if (options.places > 0 && options.mode != Mode::kStrict) {
    return Status(Code::kInvalid, "places=" + std::to_string(options.places) + " says from how many lanes strict takes batches in turn, and mode '" +
                                      std::string(Name(options.mode)) + "' has no such order: leave it out, or use mode strict");
  }
  const bool even = options.even == Even::kDrop || options.even == Even::kPad;
  if (even && options.mode == Mode::kShared && options.on_death == OnDeath::kRedeliver) {
    return Status(Code::kInvalid, std::string("even=") + (options.even == Even::kPad ? "pad" : "drop") +
                                      " ends all consumers at one step, and on_death=redeliver lets them go on without one, which then comes back to "
                                      "another step than theirs: use on_death=hold, or even=uneven");
  }
  return {};
}

// Strict deals batches of one order, which each rank can count by itself; else ranks divide the lanes.
Status CheckInlineOptions(const ReadOptions& options, const Layout& layout) {
  if (options.mode == Mode::kStrict || options.consumers <= 1) return {};
  const std::string ranks = std::to_string(options.consumers) + " consumers that read inline ";
  if (options.even == Even::kDrop || options.even == Even::kPad) {
    return Status(Code::kInvalid, ranks + "do not know when the others end, so even=drop and even=pad are not for them: " +
                                      "use mode strict, a service, or even=uneven");
  }
  if (layout.lanes < options.consumers) {
    return Status(Code::kInvalid, ranks + "divide the lanes of the dataset, and it has " + std::to_string(layout.lanes) +
                                      ": some of them would get nothing; use mode strict, which deals batches, or a service");
  }
  return {};
}

Status HasNoPosition(const std::string& job_name) {
  return Status(Code::kInvalid, "job '" + job_name + "' is replicated, which has no position: rows come as often as there are workers; " +
                                    "read it in mode shared to save and restore");
}

}  // namespace penstock
