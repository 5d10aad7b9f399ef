#include "wire/address.h"

#include <sys/un.h>

#include <charconv>

namespace penstock {
namespace {

Status Bad(std::string_view text, std::string_view why) {
  return Status(Code::kInvalid,
                "'" + std::string(text) + "' is no address (" + std::string(why) + "): write host:port, [v6]:port, unix:/path or @name");
}

Result<Address> ParseUnix(std::string_view text, std::string_view path, bool abstract) {
  if (path.empty()) return Bad(text, "the name is empty");
  if (path.size() >= sizeof(sockaddr_un::sun_path) - 1) return Bad(text, "the name is too long for a Unix socket");
  return Address(UnixAddress{std::string(path), abstract});
}

}  // namespace

Result<Address> ParseAddress(std::string_view text) {
  if (text.starts_with('@')) return ParseUnix(text, text.substr(1), true);
  if (text.starts_with("unix:")) return ParseUnix(text, text.substr(5), false);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Bad(text, "the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return Bad(text, "the port is no number up to 65535");
  if (host.starts_with('[') != host.ends_with(']')) return Bad(text, "the brackets do not match");
  if (host.starts_with('[')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Bad(text, "an IPv6 address needs brackets");
  }
  if (host == "*") return Bad(text, "all addresses of this machine are 0.0.0.0 or [::]");
  return Address(TcpAddress{std::string(host), port});
}

std::string ToString(const Address& address) {
  if (const auto* local = std::get_if<UnixAddress>(&address)) return (local->abstract ? "@" : "unix:") + local->path;
  const auto& tcp = std::get<TcpAddress>(address);
  const bool v6 = tcp.host.find(':') != std::string::npos;
  return (v6 ? "[" + tcp.host + "]" : tcp.host) + ":" + std::to_string(tcp.port);
}

}  // namespace penstock
