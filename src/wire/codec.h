// Messages as bytes: FlatBuffers of schema/wire.fbs, verified before anything in them is used. Nothing else sees FlatBuffers messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "penstock/status.h"
#include "wire/messages.h"

namespace penstock {

std::string EncodeMessage(const Message& message);

// Data for bytes that are no message, lack a table or hold a value out of its range; Mismatch for a message this version does not know.
Result<Message> DecodeMessage(std::span<const std::byte> bytes);

std::string_view MessageName(const Message& message);  // "Join"

}  // namespace penstock
