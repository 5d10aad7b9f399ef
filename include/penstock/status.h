// Errors as values.
//
// A Status says whether something worked; if not, a code that programs act on, a message that tells a person what happened, to what, and
// what to do next, and details (file, offset, worker, lane…) that bindings turn into attributes of an exception.
// Result<T> is a value or such a Status. Both are [[nodiscard]]. Neither throws; using the value of a failed Result aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace penstock {

enum class Code : uint8_t {
  kOk = 0,
  kInvalid,           // a plan, argument, flag or variable is wrong: permanent
  kNotFound,          // no such job, dataset, file
  kUnavailable,       // cannot be reached now: worth retrying
  kDeadline,          // did not happen in time
  kPermission,        // token, path or code not allowed
  kMismatch,          // another dataset, manifest or protocol version than expected
  kStale,             // an older generation, fence or term
  kNotDeterministic,  // a replay differed
  kStalled,           // the loop waits and nothing moves
  kData,              // an input file is damaged, changed or not as declared
  kExecutor,          // user code failed
  kBusy,              // no room in a budget now: go elsewhere
  kTooLarge,          // can never fit a budget or a cap
  kExists,            // already there, and different
  kFinished,          // the job has ended
  kCancelled,         // asked to stop
  kInternal,          // a bug of penstock
};

std::string_view CodeName(Code code);

struct Detail {
  std::string name;
  std::string value;
  friend bool operator==(const Detail&, const Detail&) = default;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::vector<Detail>& details() const { return details_; }
  std::string_view detail(std::string_view name) const;  // "" where there is none

  Status With(std::string name, std::string value) &&;
  Status With(std::string name, int64_t value) &&;
  // Puts "context: " before the message.
  Status Prefixed(std::string_view context) &&;

  std::string ToString() const;  // "Data: message (file=…, offset=…)"
  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
  std::vector<Detail> details_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

// Prints the status and aborts: for values that were used without looking.
[[noreturn]] void DieOf(const Status& status);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}        // NOLINT: a value is a result
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT: so is an error
    if (std::get<0>(state_).ok()) DieOf(Status(Code::kInternal, "a Result made of an ok Status has no value"));
  }

  bool ok() const { return state_.index() == 1; }
  Status status() const { return ok() ? Status() : std::get<0>(state_); }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->Checked(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Checked(); }

 private:
  T& Checked() {
    if (!ok()) DieOf(std::get<0>(state_));
    return std::get<1>(state_);
  }
  std::variant<Status, T> state_;
};

namespace internal {
inline Status StatusOf(Status status) { return status; }
template <class T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}
}  // namespace internal

// PENSTOCK_TRY(expr): returns from the function if the Status or Result is an error.
#define PENSTOCK_TRY(expr)                                                                                              \
  do {                                                                                                                  \
    if (auto penstock_try = (expr); !penstock_try.ok()) return ::penstock::internal::StatusOf(std::move(penstock_try)); \
  } while (false)

#define PENSTOCK_CONCAT_(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_(a, b)
// PENSTOCK_ASSIGN(auto x, expr): x is the value of the Result, or the function returns its error.
#define PENSTOCK_ASSIGN(lhs, expr) PENSTOCK_ASSIGN_(PENSTOCK_CONCAT(penstock_result_, __LINE__), lhs, expr)
#define PENSTOCK_ASSIGN_(result, lhs, expr) \
  auto result = (expr);                     \
  if (!result.ok()) return result.status(); \
  lhs = std::move(result).value()

}  // namespace penstock
