// One line an event: its name, then fields.
//
//   LogInfo("lane.refused", {{"job", job}, {"why", status.message()}});
//   2026-01-01T12:00:00.000Z info lane.refused job=7 why="no room"
//
// Goes to stderr. A library says nothing unless PENSTOCK_LOG asks for it; the executable calls SetUpLog. Any thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/status.h"

namespace penstock {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };
Result<LogLevel> LogLevelFromName(std::string_view name);  // debug, info, warn, error, off

struct LogField {
  LogField(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
  LogField(std::string_view n, const char* v) : name(n), value(v) {}
  LogField(std::string_view n, bool v) : name(n), value(v ? "true" : "false") {}
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>) LogField(std::string_view n, T v) : name(n), value(std::to_string(v)) {}
  template <class T>
  requires std::is_enum_v<T> LogField(std::string_view n, T v) : LogField(n, static_cast<std::underlying_type_t<T>>(v)) {}

  std::string_view name;
  std::string value;
};
using LogFields = std::initializer_list<LogField>;

// The level that PENSTOCK_LOG names, else `otherwise`. An error names the variable.
Status SetUpLog(LogLevel otherwise);
bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view event, LogFields fields);
void Log(LogLevel level, std::string_view event, std::span<const LogField> fields);
// "event name=value name="a value"": what Log writes after time and level.
std::string FormatEvent(std::string_view event, LogFields fields);
std::string FormatEvent(std::string_view event, std::span<const LogField> fields);

// What a thread works on: while it lives, each event that the thread logs ends with these fields. The inner of two counts alone.
class LogScope {
 public:
  explicit LogScope(const std::vector<LogField>& fields);  // which outlives it
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  const std::vector<LogField>* const outer_;
};

inline void LogDebug(std::string_view event, LogFields fields = {}) { Log(LogLevel::kDebug, event, fields); }
inline void LogInfo(std::string_view event, LogFields fields = {}) { Log(LogLevel::kInfo, event, fields); }
inline void LogWarn(std::string_view event, LogFields fields = {}) { Log(LogLevel::kWarn, event, fields); }
inline void LogError(std::string_view event, LogFields fields = {}) { Log(LogLevel::kError, event, fields); }

}  // namespace penstock
