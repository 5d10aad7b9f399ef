#include "wire/address.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Address, OfEveryKindReadsBackAsItIsWritten) {
  EXPECT_EQ(ParseAddress("host:5050").value(), Address(TcpAddress{"host", 5050}));
  EXPECT_EQ(ParseAddress(":0").value(), Address(TcpAddress{"", 0}));
  EXPECT_EQ(ParseAddress("[::1]:80").value(), Address(TcpAddress{"::1", 80}));
  EXPECT_EQ(ParseAddress("unix:/run/p.sock").value(), Address(UnixAddress{"/run/p.sock", false}));
  EXPECT_EQ(ParseAddress("@name").value(), Address(UnixAddress{"name", true}));
  for (const char* text : {"host:5050", ":0", "[::1]:80", "unix:/run/p.sock", "@name"}) EXPECT_EQ(ToString(ParseAddress(text).value()), text);
}

TEST(Address, ThatIsMalformedIsRefused) {
  for (const char* text : {"", "host", "host:", "host:x", "host:70000", "host:-1", "::1:80", "[::1:80", "*:80", "[*]:80", "unix:", "@"}) {
    EXPECT_EQ(ParseAddress(text).status().code(), Code::kInvalid) << text;
  }
  EXPECT_FALSE(ParseAddress("@" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace penstock
