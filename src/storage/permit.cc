#include "storage/permit.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/log.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct Prefix {
  fs::path given;  // as named, made lexically normal
  fs::path real;   // where it leads
};
std::vector<Prefix>& Prefixes() {
  static auto& prefixes = *new std::vector<Prefix>;  // never destroyed, as the system clock is not
  return prefixes;
}

bool IsBelow(const fs::path& path, const fs::path& prefix) {
  return std::mismatch(prefix.begin(), prefix.end(), path.begin(), path.end()).first == prefix.end();
}

std::string Allowed() {
  std::string allowed;
  for (const Prefix& prefix : Prefixes()) allowed += (allowed.empty() ? "" : ", ") + prefix.given.string();
  return allowed;
}

Status IsOutside(const std::string& path) {
  LogWarn("path.refused", {{"file", path}, {"allowed", Allowed()}});
  return Status(Code::kPermission, "this worker may not read " + path + ": it was started with --allow-path " + Allowed() +
                                       "; name files below that, or start it with another --allow-path")
      .With("file", path);
}

// The log says where a name leads; who asked is not even told whether there is something.
Status LeadsOutside(const std::string& path, const fs::path& real) {
  LogWarn("path.refused", {{"file", path}, {"allowed", Allowed()}, {"leads_to", real.string()}});
  return Status(Code::kPermission, "this worker may not read " + path +
                                       ": a link in it leads out of what the worker was started with, --allow-path " + Allowed() +
                                       ", or nowhere; put the file itself there, or start it with --allow-path of where the link leads, "
                                       "too (the worker's log says where)")
      .With("file", path);
}

Status CheckReal(const fs::path& real, const std::string& path) {
  const auto& prefixes = Prefixes();
  const bool below = std::any_of(prefixes.begin(), prefixes.end(), [&](const Prefix& prefix) { return IsBelow(real, prefix.real); });
  return below ? Status() : LeadsOutside(path, real);
}

fs::path WithoutLastSlash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

Status PermitOnly(const std::vector<std::string>& prefixes) {
  Prefixes().clear();
  for (const std::string& text : prefixes) {
    std::error_code error;
    const fs::path real = fs::canonical(text, error);
    if (error) return Status(Code::kInvalid, "--allow-path " + text + ": " + error.message());
    Prefixes().push_back({WithoutLastSlash(fs::absolute(text).lexically_normal()), real});
  }
  return {};
}

Status CheckPermittedName(const std::string& path) {
  const auto& prefixes = Prefixes();
  if (prefixes.empty()) return {};
  const fs::path normal = fs::absolute(path).lexically_normal();
  const bool below = std::any_of(prefixes.begin(), prefixes.end(),
                                 [&](const Prefix& prefix) { return IsBelow(normal, prefix.given) || IsBelow(normal, prefix.real); });
  return below ? Status() : IsOutside(path);
}

Status CheckPermitted(const std::string& path) {
  if (Prefixes().empty()) return {};
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? LeadsOutside(path, "") : CheckReal(real, path);
}

Status CheckPermitted(int descriptor, const std::string& path) {
  if (Prefixes().empty()) return {};
  std::error_code error;
  const fs::path real = fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
  return error ? LeadsOutside(path, "") : CheckReal(real, path);
}

}  // namespace penstock
