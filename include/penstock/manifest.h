// The inputs of a job, frozen when it starts: what lanes are cut from, and what a worker checks a file against when it opens it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/status.h"

namespace penstock {

struct InputFile {
  std::string path;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  std::string etag;      // of object stores
  int64_t records = -1;  // where known
  friend bool operator==(const InputFile&, const InputFile&) = default;
};

struct SourceInput {
  uint32_t node = 0;                   // of the plan
  std::vector<InputFile> files;        // sorted by path, or in their listing's order
  std::optional<InputFile> listing{};  // that names the files: then the manifest is kept and sent without them
  friend bool operator==(const SourceInput&, const SourceInput&) = default;
};

struct Manifest {
  std::vector<SourceInput> sources;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string SerializeManifest(const Manifest& manifest);
Result<Manifest> ParseManifest(std::string_view bytes);
std::string HashManifest(std::string_view serialized);  // 32 hex digits; in every checkpoint

}  // namespace penstock
