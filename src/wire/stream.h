// The bytes of one socket, plain or under TLS. Never blocks. I/O thread only; internal to wire.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "penstock/status.h"
#include "wire/socket.h"

namespace penstock {

class ByteStream {
 public:
  enum class Step : uint8_t { kDone, kWantsRead, kWantsWrite };
  virtual ~ByteStream() = default;

  // Before anything else, again whenever the socket is ready for what it wants. An error says what the peer or this side should change.
  virtual Result<Step> Shake(int fd) = 0;
  // As ReadSome and WriteSome.
  virtual Moved Read(int fd, std::span<iovec> into, std::vector<Fd>& descriptors) = 0;
  virtual Moved Write(int fd, std::span<iovec> from, int descriptor_beside) = 0;
  virtual bool holds_bytes() const = 0;         // to read, though the socket has none
  virtual Status Explain(int error) const = 0;  // what Read or Write gave
  virtual bool secure() const = 0;
};

std::unique_ptr<ByteStream> PlainStream();

}  // namespace penstock
