#include "base/name.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace penstock {
namespace {

constexpr size_t kShownBytes = 80;  // of a name that is refused

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
// U+0080 to U+009F in UTF-8: terminals take them for control characters, too.
bool IsLateControl(std::string_view text, size_t at) {
  return text[at] == '\xc2' && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0x80 &&
         static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

void AppendEscaped(std::string& out, char c) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    std::array<char, 5> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned char>(c));
    out += hex.data();
  }
}

std::string Shown(std::string_view name) {
  const std::string shown = "'" + Printable(name.substr(0, kShownBytes)) + "'";
  return name.size() <= kShownBytes ? shown : shown + "… (" + std::to_string(name.size()) + " bytes)";
}

}  // namespace

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (IsControl(text[at]) || IsLateControl(text, at)) return false;
  }
  return true;
}

Status CheckName(std::string_view what, std::string_view name) {
  if (IsName(name)) return {};
  return Status(Code::kInvalid,
                std::string(what) + " is " + Shown(name) + "; expected 1 to " + std::to_string(kMostNameBytes) + " bytes without control characters");
}

std::string Printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (IsLateControl(text, at)) {
      AppendEscaped(out, text[at++]);
      AppendEscaped(out, text[at]);
    } else if (IsControl(text[at])) {
      AppendEscaped(out, text[at]);
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace penstock
