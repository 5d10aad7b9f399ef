#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace penstock {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

Result<LogLevel> LevelFromEnvironment(LogLevel otherwise) {
  const char* named = std::getenv("PENSTOCK_LOG");
  if (named == nullptr || *named == '\0') return otherwise;
  auto level = LogLevelFromName(named);
  if (!level.ok()) return level.status().Prefixed("PENSTOCK_LOG");
  return level;
}

// Leaked: threads may log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("penstock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
    const auto level = LevelFromEnvironment(LogLevel::kOff);
    made->set_level(ToSpdlog(level.ok() ? *level : LogLevel::kOff));
    return made;
  }();
  return *logger;
}

thread_local const std::vector<LogField>* scope = nullptr;

bool NeedsQuotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) { return c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f; });
}

void AppendValue(std::string& line, std::string_view value) {
  if (!NeedsQuotes(value)) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else {
      line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  line += '"';
}

void AppendFields(std::string& line, std::span<const LogField> fields) {
  for (const LogField& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    AppendValue(line, field.value);
  }
}

}  // namespace

Result<LogLevel> LogLevelFromName(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return Status(Code::kInvalid, "\"" + std::string(name) + "\" is no log level; use debug, info, warn, error or off");
}

Status SetUpLog(LogLevel otherwise) {
  PENSTOCK_ASSIGN(const LogLevel level, LevelFromEnvironment(otherwise));
  Logger().set_level(ToSpdlog(level));
  return {};
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, std::string_view event, LogFields fields) { Log(level, event, std::span(fields.begin(), fields.size())); }

void Log(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (level == LogLevel::kOff || !LogEnabled(level)) return;
  std::string line = FormatEvent(event, fields);
  if (scope != nullptr) AppendFields(line, *scope);
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line));
}

std::string FormatEvent(std::string_view event, LogFields fields) { return FormatEvent(event, std::span(fields.begin(), fields.size())); }

std::string FormatEvent(std::string_view event, std::span<const LogField> fields) {
  std::string line(event);
  AppendFields(line, fields);
  return line;
}

LogScope::LogScope(const std::vector<LogField>& fields) : outer_(scope) { scope = &fields; }
LogScope::~LogScope() { scope = outer_; }

}  // namespace penstock
