#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "formats/compression.h"
#include "formats/inflater.h"

namespace penstock {
namespace {

class InflateStream;

// Where the streams of a process find one to be inflated together with. What comes out of a stream is the same whoever inflates it, and when.
class Meeting {
 public:
  // Of this process: a forked child has a place of its own, for that of its parent may be locked by a thread that the child does not have.
  static Meeting& Place();

  void Join(InflateStream& stream);
  void Leave(InflateStream& stream);
  // One that nobody uses now and that can go along, its mutex locked; among the next in the order of opening, which is that of reading where files
  // take turns. Waits for none.
  InflateStream* PartnerOf(const InflateStream& stream);

  bool inherited() const { return ::getpid() != pid_; }  // from the process that forked this one

 private:
  static constexpr size_t kLooksAt = 16;  // streams; there may be very many

  const pid_t pid_ = ::getpid();
  std::mutex mutex_;
  std::vector<InflateStream*> streams_;
};

class InflateStream final : public ByteStream {
 public:
  InflateStream(std::unique_ptr<ByteStream> in, Compression compression)
      : in_(std::move(in)),
        inflater_(
            in_->name(), [this](std::span<std::byte> out) { return ReadInput(out); }, compression) {
    meeting_.Join(*this);
  }
  ~InflateStream() override { meeting_.Leave(*this); }

  const std::string& name() const override { return in_->name(); }
  std::string where() const override {
    const auto lock = Lock();
    return lock.owns_lock() ? inflater_.where() : "an offset that a thread before the fork knew";
  }

  Result<size_t> Read(std::span<std::byte> out) override {
    const auto lock = Lock();
    if (!lock.owns_lock() || reading_) {
      return Status(Code::kInvalid, name() + ": the process was forked while another thread read this file; open it again in the child")
          .With("file", name());
    }
    if (inflater_.made().empty()) Make(std::min(out.size(), Inflater::kAtOnce));
    const size_t bytes = std::min(out.size(), inflater_.made().size());
    if (bytes == 0) PENSTOCK_TRY(inflater_.failed());
    std::memcpy(out.data(), inflater_.made().data(), bytes);
    inflater_.Take(bytes);
    inflater_.ReadAhead();
    return bytes;
  }

  // For the meeting place.
  std::mutex& mutex() const { return mutex_; }
  bool CanGoAlong() const { return !reading_ && inflater_.CanGoAlong(); }  // with the mutex held

 private:
  // Waits for a partner's reader at the most, who decodes and does nothing else. In a forked child that may be a thread which is not there: then
  // without waiting, and perhaps in vain.
  std::unique_lock<std::mutex> Lock() const { return meeting_.inherited() ? std::unique_lock(mutex_, std::try_to_lock) : std::unique_lock(mutex_); }

  void Make(size_t bytes) {
    inflater_.Slide();
    while (inflater_.made().size() < bytes && !inflater_.over()) {
      InflateStream* const partner = inflater_.HasInMemory() ? meeting_.PartnerOf(*this) : nullptr;
      if (partner == nullptr) {
        inflater_.Step(bytes);
      } else {
        const std::unique_lock theirs(partner->mutex_, std::adopt_lock);
        Inflater::StepTogether(inflater_, bytes, partner->inflater_);
      }
    }
  }

  // Of Step() and ReadAhead(), with the mutex held: storage may be slow, so it is left meanwhile, and reading_ keeps others away.
  Result<size_t> ReadInput(std::span<std::byte> out) {
    struct Unlocked {
      explicit Unlocked(InflateStream& stream) : stream_(stream) {
        stream_.reading_ = true;
        stream_.mutex_.unlock();
      }
      ~Unlocked() {
        stream_.mutex_.lock();
        stream_.reading_ = false;
      }
      InflateStream& stream_;
    } const unlocked(*this);
    return in_->Read(out);
  }

  Meeting& meeting_ = Meeting::Place();
  std::unique_ptr<ByteStream> in_;
  mutable std::mutex mutex_;  // whoever has it uses what follows: its reader, or the reader of a stream that takes it along
  Inflater inflater_;
  bool reading_ = false;  // its reader waits for input
};

Meeting& Meeting::Place() {
  static constinit std::atomic<Meeting*> place = nullptr;  // never deleted: streams may outlive what is static
  Meeting* found = place.load();
  if (found != nullptr && !found->inherited()) return *found;
  auto fresh = std::make_unique<Meeting>();
  return place.compare_exchange_strong(found, fresh.get()) ? *fresh.release() : *found;
}

void Meeting::Join(InflateStream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(&stream);
}

void Meeting::Leave(InflateStream& stream) {
  if (inherited()) return;
  {
    const std::lock_guard lock(mutex_);
    std::erase(streams_, &stream);
  }
  const std::lock_guard lock(stream.mutex());  // somebody may still have taken it along
}

InflateStream* Meeting::PartnerOf(const InflateStream& stream) {
  if (inherited()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto self = static_cast<size_t>(std::find(streams_.begin(), streams_.end(), &stream) - streams_.begin());
  for (size_t i = 1; i < std::min(streams_.size(), 1 + kLooksAt); ++i) {
    InflateStream* const other = streams_[(self + i) % streams_.size()];
    if (!other->mutex().try_lock()) continue;
    if (other->CanGoAlong()) return other;
    other->mutex().unlock();
  }
  return nullptr;
}

struct CompressionName {
  std::string_view name;
  Compression compression;
};
constexpr std::array kNames = {CompressionName{"auto", Compression::kAuto}, CompressionName{"none", Compression::kNone},
                               CompressionName{"gzip", Compression::kGzip}, CompressionName{"zlib", Compression::kZlib},
                               CompressionName{"", Compression::kNone}};

}  // namespace

uint64_t InflateMemory() { return sizeof(InflateStream) + Inflater::kBuffers; }

std::string_view Name(Compression compression) {
  for (const CompressionName& entry : kNames) {
    if (entry.compression == compression) return entry.name;
  }
  return "unknown";
}

Result<Compression> CompressionFromName(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](char a, char b) { return lower(a) == b; };
  for (const CompressionName& entry : kNames) {
    if (std::equal(name.begin(), name.end(), entry.name.begin(), entry.name.end(), same)) return entry.compression;
  }
  return Status(Code::kInvalid, "unknown compression '" + std::string(name) + "'; known are auto, none, gzip, zlib");
}

Compression DetectCompression(std::span<const std::byte> head) {
  if (head.size() < 3) return Compression::kNone;
  const auto at = [&head](size_t i) { return static_cast<unsigned>(head[i]); };
  if (at(0) == 0x1F && at(1) == 0x8B && at(2) == 8) return Compression::kGzip;
  const bool deflate = (at(0) & 15) == 8 && at(0) >> 4 <= 7;  // RFC 1950: the method, and the window it needs
  if (deflate && (at(0) * 256 + at(1)) % 31 == 0 && (at(1) & 0x20) == 0) return Compression::kZlib;
  return Compression::kNone;
}

std::unique_ptr<ByteStream> Inflate(std::unique_ptr<ByteStream> in, Compression compression) {
  return std::make_unique<InflateStream>(std::move(in), compression);
}

}  // namespace penstock
