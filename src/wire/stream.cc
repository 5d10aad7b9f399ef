#include "wire/stream.h"

#include <cerrno>

namespace penstock {
namespace {

class Plain final : public ByteStream {
 public:
  Result<Step> Shake(int /*fd*/) override { return Step::kDone; }
  Moved Read(int fd, std::span<iovec> into, std::vector<Fd>& descriptors) override { return ReadSome(fd, into, descriptors); }
  Moved Write(int fd, std::span<iovec> from, int descriptor_beside) override { return WriteSome(fd, from, descriptor_beside); }
  bool holds_bytes() const override { return false; }
  Status Explain(int error) const override {
    return Status(Code::kUnavailable, error == EPIPE ? "the connection was closed by the peer" : "the connection broke: " + ErrorText(error));
  }
  bool secure() const override { return false; }
};

}  // namespace

std::unique_ptr<ByteStream> PlainStream() { return std::make_unique<Plain>(); }

}  // namespace penstock
