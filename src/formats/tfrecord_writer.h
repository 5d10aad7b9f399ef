// Writes a TFRecord file, plain or compressed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "formats/compression.h"
#include "penstock/status.h"

namespace penstock {

class TfRecordWriter {
 public:
  // Makes or empties the file. kAuto is kNone.
  static Result<std::unique_ptr<TfRecordWriter>> Create(const std::string& path, Compression compression);
  ~TfRecordWriter();  // without Close what was written may be incomplete
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  Status Write(std::string_view record);
  Status Close();  // the last call; tells whether all was written

 private:
  TfRecordWriter(std::string path, int descriptor, Compression compression);
  Status Flush();

  std::string path_;
  int descriptor_;
  std::unique_ptr<Deflater> deflater_;
  std::string framed_;  // records on their way to the deflater
  std::string out_;     // bytes on their way to the file
};

}  // namespace penstock
