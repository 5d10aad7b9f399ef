#include "storage/file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "storage/permit.h"

namespace penstock {
namespace {

// What is short here and now, or in the way, may be otherwise on another worker: that is no word about the data.
Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EACCES:
    case EPERM: return Code::kPermission;
    case EMFILE:
    case ENFILE:
    case ENOMEM: return Code::kBusy;
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case EAGAIN: return Code::kUnavailable;
    default: return Code::kData;
  }
}

Status FileError(int error, std::string_view doing, const std::string& path) {
  const std::string_view advice = error == EMFILE ? "; raise the limit of open files (ulimit -n) of this process" : "";
  return Status(CodeOf(error), std::string(doing) + " " + path + ": " + std::generic_category().message(error) + std::string(advice))
      .With("file", path);
}

Result<InputFile> InfoOf(const struct stat& stat, const std::string& path) {
  if (S_ISDIR(stat.st_mode)) {
    return Status(Code::kInvalid, path + " is a directory: name its files, as in " + path + "/*").With("file", path);
  }
  if (!S_ISREG(stat.st_mode)) return Status(Code::kInvalid, path + " is not a regular file").With("file", path);
  InputFile info;
  info.path = path;
  info.size = static_cast<uint64_t>(stat.st_size);
  info.mtime_ns = int64_t{stat.st_mtim.tv_sec} * 1'000'000'000 + stat.st_mtim.tv_nsec;
  return info;
}

bool IsGlob(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

struct Globbed {
  glob_t found{};
  ~Globbed() { globfree(&found); }
};

Result<std::vector<std::string>> ExpandGlob(const std::string& pattern) {
  Globbed globbed;
  const int result = glob(pattern.c_str(), GLOB_ERR, nullptr, &globbed.found);
  if (result == GLOB_NOMATCH) return Status(Code::kNotFound, "no file matches " + pattern).With("file", pattern);
  if (result == GLOB_NOSPACE) return Status(Code::kBusy, "out of memory while listing " + pattern);
  if (result != 0) return FileError(errno, "cannot list", pattern);
  return std::vector<std::string>(globbed.found.gl_pathv, globbed.found.gl_pathv + globbed.found.gl_pathc);
}

std::string Times(const InputFile& file) { return std::to_string(file.size) + " bytes, modified " + std::to_string(file.mtime_ns) + " ns"; }

}  // namespace

Result<std::string> LocalPath(std::string_view uri) {
  if (uri.empty()) return Status(Code::kInvalid, "a file name is empty");
  if (uri.find('\0') != uri.npos) return Status(Code::kInvalid, "a file name has a zero byte in it");
  const size_t colon = uri.find("://");
  if (colon == uri.npos) return std::string(uri);
  const std::string_view scheme = uri.substr(0, colon);
  std::string_view rest = uri.substr(colon + 3);
  if (scheme != "file") {
    return Status(Code::kInvalid, "cannot read " + std::string(uri) + ": the scheme '" + std::string(scheme) +
                                      "' is not supported; use a path or file:///path, on storage that every worker mounts")
        .With("file", std::string(uri));
  }
  constexpr std::string_view kThisHost = "localhost";
  if (rest.starts_with(kThisHost) && rest.substr(kThisHost.size()).starts_with('/')) rest.remove_prefix(kThisHost.size());
  if (rest.empty() || rest[0] != '/') {
    return Status(Code::kInvalid, std::string(uri) + " names another host; use file:///path").With("file", std::string(uri));
  }
  return std::string(rest);
}

Result<InputFile> StatFile(std::string_view uri) {
  PENSTOCK_ASSIGN(const std::string path, LocalPath(uri));
  PENSTOCK_TRY(CheckPermittedName(path));
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return FileError(errno, "cannot find", path);
  PENSTOCK_TRY(CheckPermitted(path));
  return InfoOf(stat, path);
}

Result<std::vector<InputFile>> ListFiles(std::span<const std::string> patterns) {
  if (patterns.empty()) return Status(Code::kInvalid, "no files were named");
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    PENSTOCK_ASSIGN(const std::string path, LocalPath(pattern));
    PENSTOCK_TRY(CheckPermittedName(path));
    struct stat stat {};
    // A file whose name has brackets in it is itself, not a pattern.
    if (!IsGlob(path) || ::stat(path.c_str(), &stat) == 0) {
      paths.push_back(path);
      continue;
    }
    PENSTOCK_ASSIGN(const std::vector<std::string> matches, ExpandGlob(path));
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<InputFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    PENSTOCK_ASSIGN(InputFile file, StatFile(path));
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::shared_ptr<const File>> File::Open(std::string_view uri) {
  PENSTOCK_ASSIGN(const std::string path, LocalPath(uri));
  PENSTOCK_TRY(CheckPermittedName(path));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not hold us up
  if (descriptor < 0) return FileError(errno, "cannot open", path);
  std::shared_ptr<File> file(new File(descriptor, InputFile()));
  PENSTOCK_TRY(CheckPermitted(descriptor, path));
  struct stat stat {};
  if (::fstat(descriptor, &stat) != 0) return FileError(errno, "cannot stat", path);
  PENSTOCK_ASSIGN(file->info_, InfoOf(stat, path));
  return std::shared_ptr<const File>(std::move(file));
}

Result<std::shared_ptr<const File>> File::Open(const InputFile& expected) {
  Result<std::shared_ptr<const File>> opened = Open(expected.path);
  if (!opened.ok() && opened.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, expected.path +
                                       " is gone since the job started, or is not mounted here as it was where files were listed: put it back, or "
                                       "start a new job without it")
        .With("file", expected.path);
  }
  PENSTOCK_ASSIGN(const std::shared_ptr<const File> file, std::move(opened));
  if (file->info_.size != expected.size || file->info_.mtime_ns != expected.mtime_ns) {
    return Status(Code::kData, expected.path + " changed after the job started, or is not as a listing says: it had " + Times(expected) +
                                   ", now it has " + Times(file->info_) + ". Start a new job to read it as it is now")
        .With("file", expected.path);
  }
  return file;
}

File::~File() { ::close(descriptor_); }

Result<size_t> File::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t read = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) {
      return FileError(errno, "cannot read at offset " + std::to_string(offset + done) + " of", info_.path)
          .With("offset", std::to_string(offset + done));
    }
    if (read == 0) break;
    done += static_cast<size_t>(read);
  }
  return done;
}

void File::WillRead(uint64_t offset, uint64_t bytes) const {
  (void)::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace penstock
