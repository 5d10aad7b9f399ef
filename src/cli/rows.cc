#include "cli/rows.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
T At(std::span<const std::byte> bytes, uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t more = c < 0x80 ? 0 : (c >> 5) == 0x6 ? 1 : (c >> 4) == 0xE ? 2 : (c >> 3) == 0x1E ? 3 : 4;
    if (more == 4 || i + more >= text.size() + (more == 0 ? 1 : 0)) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kLetters[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

Json BytesAsJson(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  return {{"base64", Base64(bytes)}};
}

// 16-bit floats have no type of their own: widened by their bits.
float Half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31;
  const int exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    const uint32_t wide = sign | 0x7F800000U | fraction << 13;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24) : std::ldexp(static_cast<float>(fraction | 1024), exponent - 25);
  return sign == 0 ? value : -value;
}

float BrainFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

Json ValueAsJson(DType dtype, std::span<const std::byte> values, uint64_t i) {
  switch (dtype) {
    case DType::kBool: return At<uint8_t>(values, i) != 0;
    case DType::kInt8: return At<int8_t>(values, i);
    case DType::kInt16: return At<int16_t>(values, i);
    case DType::kInt32: return At<int32_t>(values, i);
    case DType::kInt64: return At<int64_t>(values, i);
    case DType::kUInt8: return At<uint8_t>(values, i);
    case DType::kUInt16: return At<uint16_t>(values, i);
    case DType::kUInt32: return At<uint32_t>(values, i);
    case DType::kUInt64: return At<uint64_t>(values, i);
    case DType::kFloat16: return Half(At<uint16_t>(values, i));
    case DType::kBFloat16: return BrainFloat(At<uint16_t>(values, i));
    case DType::kFloat32: return At<float>(values, i);
    case DType::kFloat64: return At<double>(values, i);
    case DType::kComplex64: return {At<float>(values, 2 * i), At<float>(values, 2 * i + 1)};
    case DType::kComplex128: return {At<double>(values, 2 * i), At<double>(values, 2 * i + 1)};
    case DType::kString: return nullptr;  // has a level of its own
  }
  return nullptr;
}

// Walks a column's dimensions; `level` counts the ragged ones passed, `at` is the position among all items at this depth.
class ColumnWalk {
 public:
  ColumnWalk(const ColumnSpec& spec, const ColumnData& data) : spec_(spec), data_(data) {}

  Json Item(size_t dimension, size_t level, uint64_t at) const {
    if (dimension == spec_.shape.size()) return Leaf(level, at);
    uint64_t begin = 0;
    uint64_t end = 0;
    const int64_t size = spec_.shape[dimension];
    if (size == kRagged) {
      begin = static_cast<uint64_t>(At<int64_t>(data_.buffers[level], at));
      end = static_cast<uint64_t>(At<int64_t>(data_.buffers[level], at + 1));
    } else {
      begin = at * static_cast<uint64_t>(size);
      end = begin + static_cast<uint64_t>(size);
    }
    Json list = Json::array();
    for (uint64_t i = begin; i < end; ++i) list.push_back(Item(dimension + 1, level + (size == kRagged ? 1 : 0), i));
    return list;
  }

 private:
  Json Leaf(size_t level, uint64_t at) const {
    if (spec_.dtype != DType::kString) return ValueAsJson(spec_.dtype, data_.values(), at);
    const auto begin = static_cast<size_t>(At<int64_t>(data_.buffers[level], at));
    const auto end = static_cast<size_t>(At<int64_t>(data_.buffers[level], at + 1));
    return BytesAsJson({reinterpret_cast<const char*>(data_.values().data()) + begin, end - begin});
  }

  const ColumnSpec& spec_;
  const ColumnData& data_;
};

Json StructureAsJson(const Batch& batch, uint64_t row, const Structure& structure, size_t& column) {
  if (structure.kind == Structure::Kind::kLeaf) {
    const size_t i = column++;
    return ColumnWalk(batch.spec().columns[i], batch.column(i)).Item(0, 0, row);
  }
  Json json = structure.kind == Structure::Kind::kDict ? Json::object() : Json::array();
  for (size_t i = 0; i < structure.children.size(); ++i) {
    Json child = StructureAsJson(batch, row, structure.children[i], column);
    if (structure.kind == Structure::Kind::kDict) {
      json[structure.names[i]] = std::move(child);
    } else {
      json.push_back(std::move(child));
    }
  }
  return json;
}

}  // namespace

std::string RowAsJson(const Batch& batch, uint64_t row) {
  size_t column = 0;
  return StructureAsJson(batch, row, batch.spec().structure, column).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock::cli
