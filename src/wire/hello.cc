#include "wire/hello.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>

#include "base/sha256.h"
#include "wire/same_host.h"

namespace penstock {
namespace {

std::string Versions(uint16_t min, uint16_t max) {
  return min == max ? "version " + std::to_string(min) : "versions " + std::to_string(min) + " to " + std::to_string(max);
}

Status CheckHello(const ListenParams& params, const msg::Hello& hello) {
  if (std::max(params.min_version, hello.min_version) > std::min(params.max_version, hello.max_version)) {
    return Status(Code::kMismatch, "the service speaks " + Versions(params.min_version, params.max_version) + " of the protocol and this program " +
                                       Versions(hello.min_version, hello.max_version) + ": install the same penstock on both sides");
  }
  if (!params.token.empty() && !SameToken(params.token, hello.token)) {
    return Status(Code::kPermission, std::string(hello.token.empty() ? "the service asks for a token and none was given" : "the token is wrong") +
                                         ": let PENSTOCK_TOKEN_FILE name the file that the service was started with");
  }
  return {};
}

}  // namespace

bool SameToken(std::string_view one, std::string_view other) {
  // Digests have one length, so neither the comparison nor its time says anything about the token's.
  const std::string a = Sha256Hex(one), b = Sha256Hex(other);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

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

msg::HelloReply AnswerHello(const ListenParams& params, const msg::Hello& hello, bool may_share) {
  msg::HelloReply reply{
      .version = std::min(params.max_version, hello.max_version), .cluster = {}, .term = {}, .shm = false, .error = CheckHello(params, hello)};
  if (!reply.error.ok()) return reply;
  reply.cluster = params.cluster;
  reply.term = params.term;
  reply.shm = hello.shm && may_share && params.segments != nullptr;
  return reply;
}

}  // namespace penstock
