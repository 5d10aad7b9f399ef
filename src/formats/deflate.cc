#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <vector>

#include "formats/compression.h"

namespace penstock {

struct Deflater::State {
  isal_zstream stream{};
  std::vector<uint8_t> level_buffer = std::vector<uint8_t>(ISAL_DEF_LVL1_DEFAULT);
};

Deflater::Deflater(Compression compression) : state_(std::make_unique<State>()) {
  isal_zstream& stream = state_->stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = compression == Compression::kGzip ? IGZIP_GZIP : IGZIP_ZLIB;
  stream.level = 1;
  stream.level_buf = state_->level_buffer.data();
  stream.level_buf_size = static_cast<uint32_t>(state_->level_buffer.size());
}

Deflater::~Deflater() = default;

void Deflater::Add(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, 1U << 30);
    // The declaration lacks a const; the function only reads.
    state_->stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(piece.data()));
    state_->stream.avail_in = static_cast<uint32_t>(piece.size());
    Run(out);
    bytes.remove_prefix(piece.size());
  }
}

void Deflater::Finish(std::string& out) {
  state_->stream.end_of_stream = 1;
  state_->stream.avail_in = 0;
  Run(out);
}

void Deflater::Run(std::string& out) {
  constexpr size_t kRoom = 64 * 1024;
  isal_zstream& stream = state_->stream;
  do {
    const size_t before = out.size();
    out.resize(before + kRoom);
    stream.next_out = reinterpret_cast<uint8_t*>(out.data() + before);
    stream.avail_out = kRoom;
    const int result = isal_deflate(&stream);
    if (result != COMP_OK) DieOf(Status(Code::kInternal, "ISA-L refuses to compress: error " + std::to_string(result)));
    out.resize(before + kRoom - stream.avail_out);
  } while (stream.avail_out == 0);
}

}  // namespace penstock
