#include "cluster/nodelist.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <variant>

namespace penstock::cluster {
namespace {

constexpr size_t kMaxText = size_t{1} << 20;
constexpr size_t kMaxHost = 253;
constexpr size_t kMaxDigits = 18;  // so that a number and its successor fit 64 bits

struct Range {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t width = 0;  // digits, with zeros before the number where it is shorter

  uint64_t size() const { return last - first + 1; }
};
using Bracket = std::vector<Range>;
using Part = std::variant<std::string, Bracket>;
using Item = std::vector<Part>;

// Reads the grammar; every method leaves the position after what it read.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // The next item, and the comma after it.
  Result<Item> NextItem() {
    Item item;
    const size_t start = at_;
    while (!AtEnd() && Here() != ',') {
      if (Here() == '[') {
        PENSTOCK_ASSIGN(Bracket bracket, ReadBracket());
        item.emplace_back(std::move(bracket));
      } else {
        PENSTOCK_ASSIGN(std::string plain, ReadPlain());
        item.emplace_back(std::move(plain));
      }
    }
    if (item.empty()) return Fault(start, "a host");
    if (!AtEnd() && ++at_ == text_.size()) return Fault(at_, "a host after the comma");
    return item;
  }

  bool AtEnd() const { return at_ == text_.size(); }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsPlain(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.'; }

  char Here() const { return text_[at_]; }
  bool Take(char c) {
    if (AtEnd() || Here() != c) return false;
    ++at_;
    return true;
  }

  Status Fault(size_t position, std::string_view expected) const {
    return Status(Code::kInvalid, "expected " + std::string(expected) + " at character " + std::to_string(position + 1));
  }

  Result<std::string> ReadPlain() {
    const size_t start = at_;
    while (!AtEnd() && IsPlain(Here())) ++at_;
    if (at_ == start) return Fault(start, "a letter, digit, '-', '_', '.', '[' or ','");
    if (at_ - start > kMaxHost) return Fault(start, "a host of at most " + std::to_string(kMaxHost) + " characters");
    return std::string(text_.substr(start, at_ - start));
  }

  Result<std::string_view> ReadDigits() {
    const size_t start = at_;
    while (!AtEnd() && IsDigit(Here())) ++at_;
    if (at_ == start) return Fault(start, "a number");
    if (at_ - start > kMaxDigits) return Fault(start, "a number of at most " + std::to_string(kMaxDigits) + " digits");
    return text_.substr(start, at_ - start);
  }

  static uint64_t ValueOf(std::string_view digits) {
    uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }

  Result<Range> ReadRange() {
    const size_t start = at_;
    PENSTOCK_ASSIGN(const std::string_view first, ReadDigits());
    Range range{ValueOf(first), ValueOf(first), first.size()};
    if (Take('-')) {
      PENSTOCK_ASSIGN(const std::string_view last, ReadDigits());
      range.last = ValueOf(last);
      if (range.last < range.first) return Fault(start, "a range from the lower to the higher number");
    }
    return range;
  }

  Result<Bracket> ReadBracket() {
    const size_t start = at_++;
    Bracket bracket;
    do {
      PENSTOCK_ASSIGN(const Range range, ReadRange());
      bracket.push_back(range);
    } while (Take(','));
    if (!Take(']')) return Fault(AtEnd() ? start : at_, AtEnd() ? "a ']' for the '['" : "',', '-' or ']'");
    return bracket;
  }

  std::string_view text_;
  size_t at_ = 0;
};

uint64_t SizeOf(const Bracket& bracket, uint64_t cap) {
  uint64_t size = 0;
  for (const Range& range : bracket) {
    if (range.size() > cap - size) return cap + 1;
    size += range.size();
  }
  return size;
}

// How many hosts an item stands for, or cap + 1 where that is more.
uint64_t SizeOf(const Item& item, uint64_t cap) {
  uint64_t size = 1;
  for (const Part& part : item) {
    const Bracket* bracket = std::get_if<Bracket>(&part);
    if (bracket == nullptr) continue;
    const uint64_t factor = SizeOf(*bracket, cap);
    if (factor > cap / size) return cap + 1;
    size *= factor;
  }
  return size;
}

std::string Padded(uint64_t number, size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

Status CheckLength(const std::string& host) {
  if (host.size() <= kMaxHost) return {};
  return Status(Code::kInvalid, "the host " + host.substr(0, 40) + "… has more than " + std::to_string(kMaxHost) + " characters");
}

// Appends what `item` stands for from `part` on, each after `prefix`.
Status Expand(const Item& item, size_t part, const std::string& prefix, std::vector<std::string>& hosts) {
  PENSTOCK_TRY(CheckLength(prefix));
  if (part == item.size()) {
    hosts.push_back(prefix);
    return {};
  }
  if (const std::string* plain = std::get_if<std::string>(&item[part])) return Expand(item, part + 1, prefix + *plain, hosts);
  for (const Range& range : std::get<Bracket>(item[part])) {
    for (uint64_t number = range.first; number <= range.last; ++number) {
      PENSTOCK_TRY(Expand(item, part + 1, prefix + Padded(number, range.width), hosts));
    }
  }
  return {};
}

Status CheckText(std::string_view text) {
  if (text.size() <= kMaxText) return {};
  return Status(Code::kTooLarge, "the list has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(kMaxText) + " are read");
}

}  // namespace

Result<std::vector<std::string>> ExpandNodelist(std::string_view text, size_t cap) {
  PENSTOCK_TRY(CheckText(text));
  Parser parser(text);
  std::vector<Item> items;
  uint64_t total = 0;
  do {
    PENSTOCK_ASSIGN(Item item, parser.NextItem());
    total += SizeOf(item, cap);
    if (total > cap) return Status(Code::kTooLarge, "the list stands for more than " + std::to_string(cap) + " hosts");
    items.push_back(std::move(item));
  } while (!parser.AtEnd());

  std::vector<std::string> hosts;
  hosts.reserve(total);
  for (const Item& item : items) PENSTOCK_TRY(Expand(item, 0, "", hosts));
  return hosts;
}

Result<std::string> FirstNode(std::string_view text) {
  PENSTOCK_TRY(CheckText(text));
  Parser parser(text);
  std::string first;
  bool found = false;
  do {  // reads all of it: a list with a fault is not trusted for its first host
    PENSTOCK_ASSIGN(const Item item, parser.NextItem());
    if (found) continue;
    found = true;
    for (const Part& part : item) {
      const Bracket* bracket = std::get_if<Bracket>(&part);
      first += bracket == nullptr ? std::get<std::string>(part) : Padded(bracket->front().first, bracket->front().width);
    }
  } while (!parser.AtEnd());
  PENSTOCK_TRY(CheckLength(first));
  return first;
}

}  // namespace penstock::cluster
