// Builds serialized tf.Examples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

// Features in the order in which they were added.
class ExampleWriter {
 public:
  ExampleWriter& Floats(std::string_view name, std::span<const float> values) {
    std::string list;
    AppendField(1, {reinterpret_cast<const char*>(values.data()), values.size_bytes()}, list);
    return Feature(name, 2, list);
  }
  ExampleWriter& Ints(std::string_view name, std::span<const int64_t> values) {
    std::string packed;
    for (int64_t value : values) AppendVarint(static_cast<uint64_t>(value), packed);
    std::string list;
    AppendField(1, packed, list);
    return Feature(name, 3, list);
  }
  ExampleWriter& Strings(std::string_view name, std::span<const std::string> values) {
    std::string list;
    for (const std::string& value : values) AppendField(1, value, list);
    return Feature(name, 1, list);
  }
  // A feature of the kind with this field number (1 bytes, 2 float, 3 int64), its list already serialized.
  ExampleWriter& Feature(std::string_view name, uint64_t kind, std::string_view list) {
    std::string feature;
    AppendField(kind, list, feature);
    return Entry(name, feature);
  }
  ExampleWriter& Entry(std::string_view name, std::string_view feature) {
    std::string entry;
    AppendField(1, name, entry);
    AppendField(2, feature, entry);
    AppendField(1, entry, features_);
    return *this;
  }
  // The serialized tf.Example; begins anew.
  std::string Finish() {
    std::string example;
    AppendField(1, features_, example);
    features_.clear();
    return example;
  }

  static void AppendVarint(uint64_t value, std::string& out) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  }
  static void AppendField(uint64_t field, std::string_view bytes, std::string& out) {
    AppendVarint(field << 3 | 2, out);
    AppendVarint(bytes.size(), out);
    out += bytes;
  }

 private:
  std::string features_;
};

}  // namespace penstock
