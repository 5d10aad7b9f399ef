// The value lists of tf.Feature: BytesList, FloatList and Int64List, packed, unpacked or mixed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/columns.h"
#include "formats/protobuf_wire.h"
#include "formats/varints.h"

namespace penstock {

// memcpy from or to null is not allowed even for no bytes.
inline void CopyValues(std::byte* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Calls `packed(bytes)` for each packed run of field 1 (for each string, where these are strings) and `single(reader)` for each value of field 1 with
// the wire type `alone`, which reads it. False where the list is damaged.
template <class Packed, class Single>
bool ForEachRun(std::string_view list, WireType alone, Packed packed, Single single) {
  WireReader wire(list);
  while (!wire.done()) {
    WireTag tag;
    std::string_view run;
    if (!wire.Tag(tag)) return false;
    bool good = false;
    if (tag.field == 1 && tag.type == WireType::kBytes) {
      good = wire.Bytes(run) && packed(run);
    } else if (tag.field == 1 && tag.type == alone) {
      good = single(wire);
    } else {
      good = wire.Skip(tag.type);
    }
    if (!good) return false;
  }
  return true;
}

inline bool CountValues(std::string_view list, DType dtype, uint64_t& count) {
  switch (dtype) {
    case DType::kFloat32:
      return ForEachRun(
          list, WireType::kFixed32,
          [&count](std::string_view run) {
            count += run.size() / sizeof(float);
            return run.size() % sizeof(float) == 0;
          },
          [&count](WireReader& wire) { return ++count, wire.Advance(sizeof(float)); });
    case DType::kInt64:
      return ForEachRun(
          list, WireType::kVarint,
          [&count](std::string_view run) {
            count += CountVarints(run);
            return run.empty() || static_cast<uint8_t>(run.back()) < 0x80;
          },
          [&count](WireReader& wire) { return ++count, wire.Skip(WireType::kVarint); });
    default:
      return ForEachRun(
          list, WireType::kBytes, [&count](std::string_view) { return ++count, true; }, [](WireReader&) { return false; });
  }
}

// A list of `values` numbers that is one packed run, as nearly all are, written to `to`. False: it is another, and what was written is of no use.
inline bool ReadPacked(std::string_view list, DType dtype, uint64_t values, std::byte* to) {
  WireReader wire(list);
  std::string_view run;
  if (!wire.Expect(1, WireType::kBytes) || !wire.Bytes(run) || !wire.done()) return false;
  if (dtype == DType::kInt64) return DecodeVarints(run, values, to);
  if (run.size() != values * sizeof(float)) return false;
  CopyValues(to, run.data(), run.size());
  return true;
}

// The three below append the list's values, `count` of them, which CountValues found.
inline bool AppendFloats(std::string_view list, uint64_t count, Column& out) {
  std::byte* to = out.ExtendValues(count * sizeof(float));
  const auto add = [&to](const char* from, size_t bytes) {
    CopyValues(to, from, bytes);
    to += bytes;
    return true;
  };
  return ForEachRun(
      list, WireType::kFixed32, [&](std::string_view run) { return add(run.data(), run.size()); },
      [&](WireReader& wire) {
        const char* from = wire.at();
        return wire.Advance(sizeof(float)) && add(from, sizeof(float));
      });
}

inline bool AppendInts(std::string_view list, uint64_t count, Column& out) {
  std::byte* to = out.ExtendValues(count * sizeof(int64_t));
  return ForEachRun(
      list, WireType::kVarint,
      [&to](std::string_view run) {
        const uint64_t values = CountVarints(run);
        std::byte* const begin = std::exchange(to, to + values * sizeof(int64_t));
        return DecodeVarints(run, values, begin);
      },
      [&to](WireReader& wire) {
        uint64_t value = 0;
        const bool good = wire.Varint(value);
        std::memcpy(std::exchange(to, to + sizeof value), &value, sizeof value);
        return good;
      });
}

inline bool AppendStrings(std::string_view list, size_t level, Column& out) {
  return ForEachRun(
      list, WireType::kBytes,
      [&](std::string_view text) {
        out.PushOffset(level, text.size());
        CopyValues(out.ExtendValues(text.size()), text.data(), text.size());
        return true;
      },
      [](WireReader&) { return false; });
}

}  // namespace penstock
