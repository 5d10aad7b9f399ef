// Where somebody listens: "host:port", "[v6]:port", "unix:/path" or "@name" (an abstract Unix socket).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "penstock/status.h"

namespace penstock {

struct TcpAddress {
  std::string host;  // without brackets; "" for all interfaces, when listening
  uint16_t port = 0;
  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};
struct UnixAddress {
  std::string path;
  bool abstract = false;
  friend bool operator==(const UnixAddress&, const UnixAddress&) = default;
};
using Address = std::variant<TcpAddress, UnixAddress>;

Result<Address> ParseAddress(std::string_view text);  // Invalid says which part is wrong
std::string ToString(const Address& address);

}  // namespace penstock
