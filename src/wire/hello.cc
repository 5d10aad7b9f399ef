#include "wire/hello.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/name.h"
#include "wire/same_host.h"

namespace penstock {
namespace {

std::string Versions(uint16_t min, uint16_t max) {
  return min == max ? "version " + std::to_string(min) : "versions " + std::to_string(min) + " to " + std::to_string(max);
}

Result<TokenClaims> CheckHello(const ListenParams& params, const msg::Hello& hello, bool lacks_tls) {
  if (lacks_tls) {
    return Status(Code::kPermission,
                  "the service speaks TLS and this program does not: let PENSTOCK_TLS_CA name the PEM file of the service's authority");
  }
  if (std::max(params.min_version, hello.min_version) > std::min(params.max_version, hello.max_version)) {
    return Status(Code::kMismatch, "the service speaks " + Versions(params.min_version, params.max_version) + " of the protocol and this program " +
                                       Versions(hello.min_version, hello.max_version) + ": install the same penstock on both sides");
  }
  if (!hello.name.empty()) PENSTOCK_TRY(CheckName("the name of who connects", hello.name));  // it goes into logs
  if (params.token.empty()) return TokenClaims{};
  return CheckToken(params.token, hello.token, std::time(nullptr));
}

}  // namespace

msg::Hello MakeHello(const ConnectParams& params, bool shared_memory) {
  const HostIdentity& host = ThisHost();
  return {.min_version = params.min_version,
          .max_version = params.max_version,
          .token = params.token,
          .role = params.role,
          .name = params.name.empty() ? HostAndPid() : params.name,
          .boot_id = host.boot_id,
          .netns = host.netns,
          .uid = geteuid(),
          .pid = static_cast<uint32_t>(getpid()),
          .shm = shared_memory};
}

HelloAnswer AnswerHello(const ListenParams& params, const msg::Hello& hello, HelloPeer peer) {
  auto claims = CheckHello(params, hello, peer.lacks_tls);
  HelloAnswer answer;
  answer.reply.version = std::min(params.max_version, hello.max_version);
  answer.reply.error = claims.status();
  if (!claims.ok()) return answer;
  answer.claims = std::move(*claims);
  answer.reply.cluster = params.cluster;
  answer.reply.term = params.term;
  answer.reply.shm = hello.shm && peer.may_share && params.segments != nullptr;
  return answer;
}

}  // namespace penstock
