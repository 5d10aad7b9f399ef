#include "penstock/manifest.h"

#include "base/constants.h"
#include "base/sha256.h"
#include "manifest_generated.h"
#include "plan/flat.h"

namespace penstock {
namespace {

Result<InputFile> ReadFile(const fb::InputFile& file, CopyBudget& budget) {
  InputFile out{.path = {}, .size = file.size(), .mtime_ns = file.mtime_ns(), .etag = {}, .records = file.records()};
  if (file.path() == nullptr || file.path()->size() == 0) return Status(Code::kInvalid, "the manifest has a file without a path");
  PENSTOCK_TRY(budget.Take(file.path()->size()));
  out.path = file.path()->str();
  if (file.etag() != nullptr) {
    PENSTOCK_TRY(budget.Take(file.etag()->size()));
    out.etag = file.etag()->str();
  }
  return out;
}

flatbuffers::Offset<fb::InputFile> WriteFile(flatbuffers::FlatBufferBuilder& out, const InputFile& file) {
  const auto path = out.CreateString(file.path);
  const auto etag = file.etag.empty() ? 0 : out.CreateString(file.etag);
  return fb::CreateInputFile(out, path, file.size, file.mtime_ns, etag, file.records);
}

flatbuffers::Offset<fb::SourceInput> WriteSource(flatbuffers::FlatBufferBuilder& out, const SourceInput& source) {
  if (source.listing) return fb::CreateSourceInput(out, source.node, 0, WriteFile(out, *source.listing));
  std::vector<flatbuffers::Offset<fb::InputFile>> files;
  for (const InputFile& file : source.files) files.push_back(WriteFile(out, file));
  return fb::CreateSourceInput(out, source.node, out.CreateVector(files));
}

}  // namespace

std::string SerializeManifest(const Manifest& manifest) {
  flatbuffers::FlatBufferBuilder out;
  std::vector<flatbuffers::Offset<fb::SourceInput>> sources;
  for (const SourceInput& source : manifest.sources) sources.push_back(WriteSource(out, source));
  out.Finish(fb::CreateManifestTable(out, out.CreateVector(sources)));
  return {reinterpret_cast<const char*>(out.GetBufferPointer()), out.GetSize()};
}

Result<Manifest> ParseManifest(std::string_view bytes) {
  if (bytes.size() > kMaxControlBody) return Status(Code::kTooLarge, "a manifest of " + std::to_string(bytes.size()) + " bytes is over the cap");
  const AlignedBytes aligned(bytes);
  flatbuffers::Verifier verifier = MakeVerifier(aligned);
  if (!verifier.VerifyBuffer<fb::ManifestTable>(nullptr)) return Status(Code::kInvalid, "the manifest's bytes are damaged or not a manifest");
  CopyBudget budget(bytes.size());
  Manifest manifest;
  const auto* sources = flatbuffers::GetRoot<fb::ManifestTable>(aligned.data())->sources();
  if (sources == nullptr) return manifest;
  for (const fb::SourceInput* source : *sources) {
    SourceInput input{.node = source->node(), .files = {}};
    if (source->listing() != nullptr) {
      PENSTOCK_ASSIGN(input.listing, ReadFile(*source->listing(), budget));
    }
    if (source->files() != nullptr) {
      for (const fb::InputFile* file : *source->files()) {
        PENSTOCK_ASSIGN(InputFile read, ReadFile(*file, budget));
        input.files.push_back(std::move(read));
      }
    }
    manifest.sources.push_back(std::move(input));
  }
  return manifest;
}

std::string HashManifest(std::string_view serialized) { return Sha256Hex(serialized).substr(0, 32); }

}  // namespace penstock
