#include "penstock/layout.h"

#include <algorithm>
#include <array>
#include <string>

namespace penstock {
namespace {

struct ModeName {
  std::string_view name;
  Mode mode;
};
// The first name of a mode is its own; the others are tf.data service's processing modes and sharding policies.
constexpr std::array kModes = {
    ModeName{"shared", Mode::kShared},
    ModeName{"distributed_epoch", Mode::kShared},
    ModeName{"dynamic", Mode::kShared},
    ModeName{"strict", Mode::kStrict},
    ModeName{"coordinated", Mode::kStrict},
    ModeName{"replicated", Mode::kReplicated},
    ModeName{"parallel_epochs", Mode::kReplicated},
    ModeName{"off", Mode::kReplicated},
    ModeName{"sharded", Mode::kSharded},
    ModeName{"file", Mode::kSharded},
    ModeName{"data", Mode::kSharded},
    ModeName{"file_or_data", Mode::kSharded},
    ModeName{"hint", Mode::kSharded},
};

struct EvenName {
  std::string_view name;
  Even even;
};
constexpr std::array kEvens = {EvenName{"auto", Even::kAuto}, EvenName{"drop", Even::kDrop}, EvenName{"pad", Even::kPad},
                               EvenName{"uneven", Even::kUneven}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

template <class Table>
Status Unknown(std::string_view what, std::string_view name, const Table& table) {
  std::string known;
  for (const auto& entry : table) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  return Status(Code::kInvalid, "unknown " + std::string(what) + " '" + std::string(name) + "'; known are " + known);
}

}  // namespace

std::string_view Name(Mode mode) {
  const auto* found = std::find_if(kModes.begin(), kModes.end(), [mode](const ModeName& entry) { return entry.mode == mode; });
  return found == kModes.end() ? "unknown" : found->name;
}

Result<Mode> ModeFromName(std::string_view name) {
  const std::string wanted = Lower(name);
  for (const ModeName& entry : kModes) {
    if (entry.name == wanted) return entry.mode;
  }
  return Unknown("processing mode", name, kModes);
}

Result<Even> EvenFromName(std::string_view name) {
  const std::string wanted = Lower(name);
  for (const EvenName& entry : kEvens) {
    if (entry.name == wanted) return entry.even;
  }
  return Unknown("value of even", name, kEvens);
}

std::string_view Name(Purity purity) {
  switch (purity) {
    case Purity::kPure: return "pure";
    case Purity::kPureIdentity: return "pure identity";
    case Purity::kImpure: return "impure";
  }
  return "unknown";
}

}  // namespace penstock
