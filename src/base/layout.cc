#include "penstock/layout.h"

#include <algorithm>
#include <array>
#include <string>

namespace penstock {
namespace {

template <class E>
struct Named {
  std::string_view name;
  E value;
  bool offered = true;  // else whoever is given it says what to use instead
};
// The first name of a mode is its own; the others are tf.data service's processing modes and sharding policies.
constexpr std::array kModes = {
    Named<Mode>{"shared", Mode::kShared},
    Named<Mode>{"distributed_epoch", Mode::kShared},
    Named<Mode>{"dynamic", Mode::kShared},
    Named<Mode>{"strict", Mode::kStrict},
    Named<Mode>{"coordinated", Mode::kStrict},
    Named<Mode>{"replicated", Mode::kReplicated},
    Named<Mode>{"parallel_epochs", Mode::kReplicated},
    Named<Mode>{"off", Mode::kReplicated},
    Named<Mode>{"sharded", Mode::kSharded, false},
    Named<Mode>{"file", Mode::kSharded, false},
    Named<Mode>{"data", Mode::kSharded, false},
    Named<Mode>{"file_or_data", Mode::kSharded, false},
    Named<Mode>{"hint", Mode::kSharded, false},
};

constexpr std::array kEvens = {Named<Even>{"auto", Even::kAuto}, Named<Even>{"drop", Even::kDrop}, Named<Even>{"pad", Even::kPad},
                               Named<Even>{"uneven", Even::kUneven}};
constexpr std::array kRestarts = {Named<OnRestart>{"error", OnRestart::kError}, Named<OnRestart>{"continue", OnRestart::kContinue},
                                  Named<OnRestart>{"restart", OnRestart::kRestart}};
constexpr std::array kDeaths = {Named<OnDeath>{"auto", OnDeath::kAuto}, Named<OnDeath>{"hold", OnDeath::kHold},
                                Named<OnDeath>{"redeliver", OnDeath::kRedeliver}};
constexpr std::array kCompressions = {Named<WireCompression>{"auto", WireCompression::kAuto}, Named<WireCompression>{"none", WireCompression::kNone},
                                      Named<WireCompression>{"lz4", WireCompression::kLz4}, Named<WireCompression>{"zstd", WireCompression::kZstd}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

template <class E, size_t N>
Result<E> FromName(std::string_view what, std::string_view name, const std::array<Named<E>, N>& table) {
  const std::string wanted = Lower(name);
  std::string known;
  for (const Named<E>& entry : table) {
    if (entry.name == wanted) return entry.value;
    if (entry.offered) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Status(Code::kInvalid, "unknown " + std::string(what) + " '" + std::string(name) + "'; known are " + known);
}

}  // namespace

std::string_view Name(Mode mode) {
  const auto* found = std::find_if(kModes.begin(), kModes.end(), [mode](const Named<Mode>& entry) { return entry.value == mode; });
  return found == kModes.end() ? "unknown" : found->name;
}

Result<Mode> ModeFromName(std::string_view name) { return FromName("processing mode", name, kModes); }
Result<Even> EvenFromName(std::string_view name) { return FromName("value of even", name, kEvens); }
Result<OnRestart> OnRestartFromName(std::string_view name) { return FromName("value of on_restart", name, kRestarts); }
Result<OnDeath> OnDeathFromName(std::string_view name) { return FromName("value of on_death", name, kDeaths); }
Result<WireCompression> WireCompressionFromName(std::string_view name) { return FromName("compression", name, kCompressions); }

std::string_view Name(Purity purity) {
  switch (purity) {
    case Purity::kPure: return "pure";
    case Purity::kPureIdentity: return "pure identity";
    case Purity::kImpure: return "impure";
  }
  return "unknown";
}

}  // namespace penstock
