// Any bytes as DEFLATE data, alone and in pairs, in pieces of any size and by every loop, where zlib must agree; any bytes as gzip and zlib files,
// read in turns; and what is deflated comes back the same.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compression.h"
#include "formats/deflate_decoder.h"

namespace penstock {
namespace {

constexpr size_t kMost = 1 << 18;  // of output: a small input may inflate a thousandfold

void Check(bool right) {
  if (!right) std::abort();
}

// Sizes of pieces, from small to large, by an input's first bytes.
class Sizes {
 public:
  explicit Sizes(uint32_t seed) : state_(seed) {}
  size_t Next() {
    state_ = state_ * 1664525 + 1013904223;
    return (state_ >> 16) % (size_t{1} << (1 + (state_ >> 8) % 14));
  }

 private:
  uint32_t state_;
};

struct Outcome {
  bool good = false;   // the data ended well
  bool whole = false;  // or was too long to say
  std::string text;
  size_t used = 0;  // bytes, if good
};

Outcome ByZlib(std::string_view data) {
  z_stream stream{};
  Check(inflateInit2(&stream, -15) == Z_OK);
  Outcome outcome{.text = std::string(kMost, '\0')};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(outcome.text.data());
  stream.avail_out = kMost;
  outcome.good = inflate(&stream, Z_FINISH) == Z_STREAM_END;
  outcome.whole = stream.avail_out > 0;
  outcome.used = stream.total_in;
  outcome.text.resize(stream.total_out);
  inflateEnd(&stream);
  return outcome;
}

// A decoder whose input lies in memory of exactly its size and slack, somewhere else for each piece, and whose window slides.
class InPieces {
 public:
  InPieces(std::string_view data, Instructions instructions, uint32_t seed) : decoder_(instructions), sizes_(seed), data_(data) {
    window_.resize(kWindow + DeflateDecoder::kOutputSlack);
    at_.begin = at_.out = at_.out_end = taken_ = window_.data();
    Give(0);
  }

  bool over() const { return over_ || text_.size() >= kMost; }
  void Run() { Heed(decoder_.Run(at_)); }
  static void RunTogether(InPieces& a, InPieces& b) {
    DeflateDecoder::RunTogether(a.decoder_, a.at_, b.decoder_, b.at_);
    a.TakeMade();
    b.TakeMade();
  }
  Outcome Get() const {
    return {.good = good_, .whole = text_.size() < kMost, .text = text_, .used = given_ - static_cast<size_t>(at_.in_end - at_.in)};
  }

 private:
  static constexpr size_t kWindow = DeflateDecoder::kHistory + (1 << 14);

  void Heed(DeflateDecoder::Stop stop) {
    using Stop = DeflateDecoder::Stop;
    TakeMade();
    if (stop == Stop::kEnd || stop == Stop::kDamaged || (stop == Stop::kInput && at_.last)) {
      over_ = true;
      good_ = stop == Stop::kEnd;
    } else if (stop == Stop::kInput) {
      Give(sizes_.Next());
    } else {
      Slide();
      at_.out_end = std::min(at_.out + sizes_.Next(), window_.data() + kWindow);
    }
  }
  void TakeMade() {
    text_.append(taken_, at_.out);
    taken_ = at_.out;
  }
  void Give(size_t more) {
    const std::vector<uint8_t> rest(at_.in, at_.in_end);
    more = std::min(more, data_.size() - given_);
    input_.assign(rest.begin(), rest.end());
    input_.insert(input_.end(), data_.begin() + static_cast<ptrdiff_t>(given_), data_.begin() + static_cast<ptrdiff_t>(given_ + more));
    input_.resize(input_.size() + DeflateDecoder::kInputSlack, 0xA5);
    input_.shrink_to_fit();
    given_ += more;
    at_.in = input_.data();
    at_.in_end = at_.in + rest.size() + more;
    at_.last = given_ == data_.size();
  }
  void Slide() {
    if (at_.out < window_.data() + kWindow) return;
    std::copy(at_.out - DeflateDecoder::kHistory, at_.out, window_.data());
    at_.begin = window_.data();
    at_.out = at_.out_end = taken_ = window_.data() + DeflateDecoder::kHistory;
  }

  DeflateDecoder decoder_;
  Sizes sizes_;
  std::string_view data_;
  size_t given_ = 0;
  std::vector<uint8_t> input_;
  std::vector<uint8_t> window_;
  DeflateBytes at_;
  uint8_t* taken_;
  std::string text_;
  bool over_ = false;
  bool good_ = false;
};

void CheckSame(const Outcome& ours, const Outcome& zlibs) {
  const size_t common = std::min(ours.text.size(), zlibs.text.size());  // where it is damaged one may have seen it earlier
  Check(ours.text.compare(0, common, zlibs.text, 0, common) == 0);
  if (!ours.whole || !zlibs.whole) return;
  Check(ours.good == zlibs.good);
  if (ours.good) Check(ours.text == zlibs.text && ours.used == zlibs.used);
}

void CheckDecoder(std::string_view first, std::string_view second, uint32_t seed) {
  const std::array expected = {ByZlib(first), ByZlib(second)};
  for (const Instructions instructions : {Instructions::kBaseline, BestInstructions()}) {
    const auto alone = std::make_unique<InPieces>(first, instructions, seed);
    while (!alone->over()) alone->Run();
    CheckSame(alone->Get(), expected[0]);
    const auto a = std::make_unique<InPieces>(first, instructions, seed + 1);
    const auto b = std::make_unique<InPieces>(second, instructions, seed + 2);
    while (!a->over() || !b->over()) {
      if (!a->over() && !b->over()) InPieces::RunTogether(*a, *b);
      if (!a->over()) a->Run();
      if (!a->over() && !b->over()) InPieces::RunTogether(*a, *b);
      if (!b->over()) b->Run();
    }
    CheckSame(a->Get(), expected[0]);
    CheckSame(b->Get(), expected[1]);
  }
}

// Files read in turns: what comes out, and whether that was all of it without an error.
std::vector<Outcome> ReadInTurns(const std::vector<std::string>& files, Compression compression, uint32_t seed) {
  std::vector<Outcome> outcomes(files.size());
  std::vector<std::unique_ptr<ByteStream>> streams;
  for (const std::string& file : files) streams.push_back(Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(file)), compression));
  Sizes sizes(seed);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < files.size(); ++i) {
      if (streams[i] == nullptr || outcomes[i].text.size() >= kMost) continue;
      std::vector<std::byte> buffer(1 + 8 * sizes.Next());
      const auto read = streams[i]->Read(buffer);
      if (read.ok()) outcomes[i].text.append(reinterpret_cast<const char*>(buffer.data()), *read);
      outcomes[i].good = read.ok() && *read == 0;
      if (!read.ok() || *read == 0) streams[i].reset();
      more = more || streams[i] != nullptr;
    }
  }
  return outcomes;
}

std::string Deflated(std::string_view text, Compression compression) {
  Deflater deflater(compression);
  std::string out;
  deflater.Add(text, out);
  deflater.Finish(out);
  return out;
}

void CheckFiles(const std::string& bytes, uint32_t seed) {
  std::string text;  // long enough to be taken along
  for (uint32_t i = 0; text.size() < 40'000; ++i) text += bytes.substr(0, 1000) + std::to_string(i * (seed | 1) * 2654435761U);
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    std::string damaged = Deflated(text, compression);
    damaged[seed % damaged.size()] = static_cast<char>(seed >> 8);
    const std::vector<std::string> files = {bytes, Deflated(text, compression), damaged, Deflated(bytes, compression)};
    const auto together = ReadInTurns(files, compression, seed);
    for (size_t i = 0; i < files.size(); ++i) {
      const auto alone = ReadInTurns({files[i]}, compression, seed + 1);
      const size_t common = std::min({alone[0].text.size(), together[i].text.size(), kMost});
      Check(alone[0].text.compare(0, common, together[i].text, 0, common) == 0);
      Check(alone[0].text.size() >= kMost || (alone[0].text == together[i].text && alone[0].good == together[i].good));
    }
    Check(together[1].good && together[1].text == text);
    Check(together[3].good && together[3].text == bytes);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 4) return 0;
  const uint32_t seed = data[0] | data[1] << 8 | data[2] << 16;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  const size_t half = seed % (bytes.size() + 1);
  CheckDecoder(bytes, bytes.substr(half), seed);
  CheckDecoder(bytes.substr(0, half), bytes.substr(half), seed);
  const std::string good = Deflated(bytes, Compression::kZlib);  // blocks that chance would not find
  std::string damaged = good.substr(2);
  damaged[seed % damaged.size()] ^= static_cast<char>(1 << (seed >> 16 & 7));
  CheckDecoder(std::string_view(good).substr(2), damaged, seed);
  if (seed % 16 == 0) CheckFiles(std::string(bytes), seed);  // the longest of these
  return 0;
}
