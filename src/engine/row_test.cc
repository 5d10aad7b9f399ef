#include "engine/row.h"

#include <gtest/gtest.h>

#include <string>

#include "base/crc32c.h"

namespace penstock::engine {
namespace {

Row Numbered(uint64_t number) {
  Row row;
  row.number = number;
  return row;
}

Row Record(std::string_view bytes, std::optional<uint32_t> crc = std::nullopt) {
  Row row;
  row.bytes.Share(bytes, std::make_shared<int>(), crc);
  return row;
}

Row Tuple(std::vector<Row> parts) {
  Row row;
  row.parts = std::move(parts);
  return row;
}

TEST(NameOfARow, DiffersWithNumberBytesAndParts) {
  EXPECT_EQ(NameOf(Numbered(7)), NameOf(Numbered(7)));
  EXPECT_NE(NameOf(Numbered(7)), NameOf(Numbered(8)));
  EXPECT_EQ(NameOf(Record("one")), NameOf(Record("one")));
  EXPECT_NE(NameOf(Record("one")), NameOf(Record("two")));
  EXPECT_NE(NameOf(Record("")), NameOf(Record(std::string_view("\0", 1))));
  EXPECT_NE(NameOf(Tuple({Numbered(1), Numbered(2)})), NameOf(Tuple({Numbered(2), Numbered(1)})));
  EXPECT_NE(NameOf(Tuple({Numbered(1)})), NameOf(Tuple({Numbered(1), Numbered(1)})));
  EXPECT_NE(NameOf(Tuple({Record("one")})), NameOf(Tuple({Record("two")})));
}

TEST(NameOfARow, StaysWhereARecordLeavesItsWindow) {
  Row row = Record("bytes", 17);
  const uint32_t name = NameOf(row);
  Detach(row);
  EXPECT_EQ(NameOf(row), name);
}

TEST(RecordBytes, TakeACheckedCrcForTheirChecksumUntilTheyAreOthers) {
  const std::string bytes = "bytes";
  RecordBytes record;
  record.Share(bytes, std::make_shared<int>(), 17);
  EXPECT_EQ(record.Checksum(), 17);
  record.Own() = bytes;
  EXPECT_EQ(record.Checksum(), Crc32c(std::as_bytes(std::span(bytes))));
}

}  // namespace
}  // namespace penstock::engine
