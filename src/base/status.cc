#include "penstock/status.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "Ok";
    case Code::kInvalid: return "Invalid";
    case Code::kNotFound: return "NotFound";
    case Code::kUnavailable: return "Unavailable";
    case Code::kDeadline: return "Deadline";
    case Code::kPermission: return "PermissionDenied";
    case Code::kMismatch: return "Mismatch";
    case Code::kStale: return "Stale";
    case Code::kNotDeterministic: return "NotDeterministic";
    case Code::kStalled: return "Stalled";
    case Code::kData: return "Data";
    case Code::kExecutor: return "Executor";
    case Code::kBusy: return "Busy";
    case Code::kTooLarge: return "TooLarge";
    case Code::kExists: return "Exists";
    case Code::kFinished: return "Finished";
    case Code::kCancelled: return "Cancelled";
    case Code::kInternal: return "Internal";
  }
  return "Unknown";
}

std::string_view Status::detail(std::string_view name) const {
  for (const Detail& detail : details_) {
    if (detail.name == name) return detail.value;
  }
  return {};
}

Status Status::With(std::string name, std::string value) && {
  details_.push_back({std::move(name), std::move(value)});
  return std::move(*this);
}

Status Status::With(std::string name, int64_t value) && { return std::move(*this).With(std::move(name), std::to_string(value)); }

Status Status::Prefixed(std::string_view context) && {
  message_ = std::string(context) + ": " + message_;
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return "Ok";
  std::string text = std::string(CodeName(code_)) + ": " + message_;
  if (details_.empty()) return text;
  text += " (";
  for (size_t i = 0; i < details_.size(); ++i) {
    if (i > 0) text += ", ";
    text += details_[i].name + "=" + details_[i].value;
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Status& status) { return out << status.ToString(); }

void DieOf(const Status& status) {
  std::fprintf(stderr, "penstock: a result was used that is an error: %s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace penstock
