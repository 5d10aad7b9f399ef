#include "storage/listing.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "storage/file.h"

namespace penstock {
namespace {

constexpr size_t kNanoDigits = 9;
constexpr uint64_t kLargestFile = uint64_t{1} << 50;

Status BadLine(std::string_view why) {
  return Status(Code::kData,
                std::string(why) + "; a line is path, size and time of change with tabs between, as find -printf '%p\\t%s\\t%T@\\n' prints it");
}

template <class T>
bool ParseWhole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Exactly: a time as a double would lose its last digits.
bool ParseNanoseconds(std::string_view seconds, int64_t& ns) {
  const size_t dot = std::min(seconds.find('.'), seconds.size());
  std::string digits(seconds.substr(0, dot));
  digits += seconds.substr(std::min(dot + 1, seconds.size()), kNanoDigits);
  digits.resize(dot + kNanoDigits, '0');
  return dot > 0 && ParseWhole(std::string_view(digits), ns);
}

Result<std::string> ReadAll(const File& file) {
  std::string text(file.size(), '\0');
  PENSTOCK_ASSIGN(const size_t read, file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  text.resize(read);
  return text;
}

}  // namespace

Result<InputFile> ParseListingLine(std::string_view line) {
  const size_t time_tab = line.rfind('\t');
  const size_t size_tab = time_tab == line.npos || time_tab == 0 ? line.npos : line.rfind('\t', time_tab - 1);
  if (size_tab == line.npos) return BadLine("it does not have three parts");
  InputFile file;
  file.path = line.substr(0, size_tab);
  if (file.path.empty()) return BadLine("its path is empty");
  const std::string_view size = line.substr(size_tab + 1, time_tab - size_tab - 1);
  if (!ParseWhole(size, file.size)) return BadLine("its size '" + std::string(size) + "' is no number");
  if (file.size > kLargestFile) return BadLine("its size " + std::string(size) + " is more than any file has");
  const std::string_view time = line.substr(time_tab + 1);
  if (!ParseNanoseconds(time, file.mtime_ns)) return BadLine("its time '" + std::string(time) + "' is no number of seconds");
  return file;
}

Result<std::vector<InputFile>> ReadListing(const InputFile& expected) {
  PENSTOCK_ASSIGN(const auto listing, File::Open(expected));
  PENSTOCK_ASSIGN(const std::string text, ReadAll(*listing));
  const std::string directory = std::filesystem::path(expected.path).parent_path().string() + "/";
  std::vector<InputFile> files;
  files.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view words = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (words.empty()) continue;
    Result<InputFile> file = ParseListingLine(words);
    if (!file.ok()) {
      return Status(file.status().code(), "line " + std::to_string(line) + " of the listing " + expected.path + ": " + file.status().message())
          .With("file", expected.path);
    }
    if (file->path.find("://") == file->path.npos && file->path[0] != '/') file->path.insert(0, directory);
    files.push_back(std::move(*file));
  }
  if (files.empty()) return Status(Code::kNotFound, "the listing " + expected.path + " names no file").With("file", expected.path);
  return files;
}

}  // namespace penstock
