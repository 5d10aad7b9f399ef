// Stored entities as keys and bytes (schema/store.fbs). Decoding checks before it trusts: an error names the key.
//
//   dataset/<id>            the serialized plan
//   job/<job>               what the job is
//   inputs/<job>            manifest and layout, as the message Inputs
//   base/<job>              the position that its generation began with, as users see it; none: the job's start
//   epoch/<job>/<epoch>     watermark, pool
//   member/<job>/<consumer> a consumer and its grants
//   tombstone/<ordinal>     a finished job
// Numbers are hexadecimal with leading zeros, so that keys sort as numbers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatcher/state.h"
#include "penstock/status.h"

namespace penstock::dispatcher {

std::string DatasetKey(const std::string& dataset);
std::string JobKey(JobId job);
std::string InputsKey(JobId job);
std::string EpochKey(JobId job, Epoch epoch);
std::string MemberKey(JobId job, ConsumerId consumer);
std::string BaseKey(JobId job);
std::string TombstoneKey(uint64_t ordinal);

// A key taken apart: its kind, and up to two numbers ("dataset" keeps its id as text).
struct ParsedKey {
  std::string kind;
  std::string text;
  uint64_t first = 0;
  uint64_t second = 0;
};
Result<ParsedKey> ParseKey(const std::string& key);

std::string EncodeJob(const Job& job);
Result<Job> DecodeJob(JobId id, std::string_view bytes);
std::string EncodeInputs(const msg::Inputs& inputs);
Result<msg::Inputs> DecodeInputs(std::string_view bytes);
std::string EncodeEpoch(const EpochState& state);
Result<EpochState> DecodeEpoch(Epoch epoch, EpochShape shape, std::string_view bytes);

struct StoredGrant {
  Epoch epoch{};
  GrantName name;
  Held held;
};
struct StoredMember {
  Consumer consumer;
  std::vector<StoredGrant> grants;
};
std::string EncodeMember(const Job& job, const Consumer& consumer);
Result<StoredMember> DecodeMember(std::string_view bytes);
std::string EncodeTombstone(const Tombstone& tombstone);
Result<Tombstone> DecodeTombstone(uint64_t ordinal, std::string_view bytes);

}  // namespace penstock::dispatcher
