#include "formats/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/philox.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::string Compress(std::string_view text, Compression compression) {
  Deflater deflater(compression);
  std::string out;
  deflater.Add(text, out);
  deflater.Finish(out);
  return out;
}

Result<std::string> Uncompress(std::string bytes, Compression compression, size_t piece = 1000) {
  const auto stream = Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(std::move(bytes), "/data/a.gz")), compression);
  std::string out;
  std::vector<std::byte> buffer(piece);
  for (;;) {
    PENSTOCK_ASSIGN(const size_t read, stream->Read(buffer));
    if (read == 0) return out;
    out.append(reinterpret_cast<const char*>(buffer.data()), read);
  }
}

// Compressible, but longer than the input buffer when compressed.
std::string LongText() {
  std::string text;
  const RandomStream stream({.seed = 1});
  for (Seq i = 0; i < 100'000; ++i) text += std::to_string(stream.At(i).Next32()) + " and ";
  return text;
}

TEST(Inflate, GivesBackWhatWasDeflated) {
  const std::string text = LongText();
  for (Compression compression : {Compression::kGzip, Compression::kZlib}) {
    for (size_t piece : {7, 1000, 300'000}) EXPECT_EQ(*Uncompress(Compress(text, compression), compression, piece), text);
    EXPECT_EQ(*Uncompress(Compress("", compression), compression), "");
    EXPECT_EQ(*Uncompress("", compression), "");
  }
}

TEST(Inflate, ReadsGzipWrittenByOthers) {
  // printf hello | gzip -9, with a name in the header
  const std::string bytes(
      "\x1f\x8b\x08\x08\x00\x00\x00\x00\x02\x03\x61\x2e\x74\x78\x74\x00\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00", 31);
  EXPECT_EQ(*Uncompress(bytes, Compression::kGzip), "hello");
}

TEST(Inflate, JoinsTheMembersOfAGzipFile) {
  const std::string two = Compress("first, ", Compression::kGzip) + Compress("", Compression::kGzip) + Compress("second", Compression::kGzip);
  EXPECT_EQ(*Uncompress(two, Compression::kGzip, 3), "first, second");
  EXPECT_EQ(*Uncompress(two + std::string(100, '\0'), Compression::kGzip), "first, second");
}

TEST(Inflate, WhatFollowsTheEndIsAnError) {
  const std::string one = Compress("first", Compression::kGzip);
  EXPECT_THAT(Uncompress(one + "junk", Compression::kGzip).status().message(), HasSubstr("something after the end of the gzip data"));
  EXPECT_FALSE(Uncompress(one + "\x1f", Compression::kGzip).ok());
}

TEST(Inflate, TruncationIsAnErrorWithFileAndOffset) {
  const std::string bytes = Compress("some text that is cut off", Compression::kGzip);
  for (size_t length = 1; length < bytes.size(); ++length) {
    const Status status = Uncompress(bytes.substr(0, length), Compression::kGzip).status();
    ASSERT_EQ(status.code(), Code::kData) << length;
    EXPECT_THAT(status.message(), HasSubstr("the gzip data ends too early"));
    EXPECT_EQ(status.detail("file"), "/data/a.gz");
    EXPECT_EQ(status.detail("offset"), std::to_string(length));
  }
}

TEST(Inflate, AWrongTrailerIsAnError) {
  std::string bytes = Compress("some text", Compression::kGzip);
  bytes[bytes.size() - 6] ^= 1;
  EXPECT_THAT(Uncompress(bytes, Compression::kGzip).status().message(), HasSubstr("a checksum that does not match"));
}

TEST(Inflate, GarbageIsAnError) {
  EXPECT_EQ(Uncompress("this is not gzip at all", Compression::kGzip).status().code(), Code::kData);
  EXPECT_EQ(Uncompress("this is not zlib at all", Compression::kZlib).status().code(), Code::kData);
}

// Streams of the same process are inflated together.
class InflateInTurns : public ::testing::TestWithParam<Compression> {
 protected:
  static std::string Compressed(std::string_view text) { return Compress(text, GetParam()); }
  static std::unique_ptr<ByteStream> Open(std::string bytes, std::string name = "/data/a.gz") {
    return Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(std::move(bytes), std::move(name))), GetParam());
  }
  static std::string Text(uint64_t seed) {
    std::string text;
    const RandomStream stream({.seed = seed});
    for (Seq i = 0; i < 300'000; ++i) text += stream.At(i).Next32() % 3 == 0 ? "and " : std::to_string(stream.At(i).Next32());
    return text;
  }
  // Up to so many bytes more.
  static Result<bool> ReadSome(ByteStream& stream, size_t bytes, std::string& out) {
    std::vector<std::byte> buffer(50'000);
    for (size_t read = 0; read < bytes;) {
      PENSTOCK_ASSIGN(const size_t more, stream.Read(buffer));
      if (more == 0) return false;
      out.append(reinterpret_cast<const char*>(buffer.data()), more);
      read += more;
    }
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(Of, InflateInTurns, ::testing::Values(Compression::kGzip, Compression::kZlib),
                         [](const auto& of) { return std::string(Name(of.param)); });

TEST_P(InflateInTurns, GivesEachItsOwn) {
  const std::string text = Text(1);
  std::vector<std::string> texts;
  std::vector<std::string> files;
  for (size_t i = 0; i < 5; ++i) {
    texts.push_back(text.substr(i * 100'000));
    const bool members = GetParam() == Compression::kGzip;  // zlib has none
    const size_t first = members ? 500'000 : texts[i].size();
    files.push_back(Compressed(texts[i].substr(0, first)) + (members ? Compressed(texts[i].substr(first)) : ""));
  }
  for (const size_t turn : {1, 100'000, 1'500'000}) {
    std::vector<std::string> got(texts.size());
    std::vector<std::unique_ptr<ByteStream>> streams;
    for (const std::string& file : files) streams.push_back(Open(file));
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < got.size(); ++i) more = *ReadSome(*streams[i], turn, got[i]) || more;
    }
    EXPECT_TRUE(got == texts);
  }
}

TEST_P(InflateInTurns, DamageIsToldByTheStreamThatHasIt) {
  const std::string text = Text(1);
  std::string damaged = Compressed(text);
  damaged.resize(damaged.size() / 2);
  const auto good = Open(Compressed(text));
  const auto bad = Open(damaged, "/data/bad.gz");
  std::string of_good;
  std::string of_bad;
  ASSERT_TRUE(*ReadSome(*bad, 1, of_bad));
  while (*ReadSome(*good, 1, of_good)) {
  }
  EXPECT_EQ(of_good, text);
  Result<bool> more = true;
  while (more.ok()) more = ReadSome(*bad, 1, of_bad);
  EXPECT_EQ(more.status().detail("file"), "/data/bad.gz");
  EXPECT_EQ(more.status().detail("offset"), std::to_string(damaged.size()));
  EXPECT_EQ(text.substr(0, of_bad.size()), of_bad);
  EXPECT_GT(of_bad.size(), text.size() / 3);
}

TEST_P(InflateInTurns, ByManyThreadsAtOnceAndLeftInTheMiddle) {
  const std::string text = Text(2);
  const std::string bytes = Compressed(text);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t again = 0; again < 4; ++again) {
        const auto a = Open(bytes);
        const auto b = Open(bytes);
        std::string of_a;
        std::string of_b;
        while (*ReadSome(*a, 100'000, of_a) && of_a.size() < text.size() / (again + 1)) (void)*ReadSome(*b, 70'000 * (thread + 1), of_b);
        EXPECT_EQ(text.compare(0, of_a.size(), of_a), 0);
        EXPECT_EQ(text.compare(0, of_b.size(), of_b), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Input that comes when the test says so, and tells who read it.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitOneThatWaits() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

class GatedInput final : public ByteStream {
 public:
  // The gate is before what lies behind `free` bytes.
  GatedInput(std::string bytes, size_t free, Gate& gate, std::set<std::thread::id>& readers)
      : stream_(std::make_shared<MemorySource>(std::move(bytes), "/data/slow.gz")), free_(free), gate_(gate), readers_(readers) {}
  const std::string& name() const override { return stream_.name(); }
  std::string where() const override { return stream_.where(); }
  Result<size_t> Read(std::span<std::byte> out) override {
    readers_.insert(std::this_thread::get_id());
    if (free_ == 0) gate_.Pass();
    PENSTOCK_ASSIGN(const size_t read, stream_.Read(free_ == 0 ? out : out.first(std::min(out.size(), free_))));
    free_ -= std::min(free_, read);
    return read;
  }

 private:
  SourceStream stream_;
  size_t free_;
  Gate& gate_;
  std::set<std::thread::id>& readers_;
};

TEST_P(InflateInTurns, OneThatWaitsForItsInputHoldsUpNoOtherAndIsReadByItsOwnReaderAlone) {
  const std::string text = Text(3);
  Gate gate;
  std::set<std::thread::id> readers;
  const auto slow = Inflate(std::make_unique<GatedInput>(Compressed(text), 100'000, gate, readers), GetParam());
  const auto other = Open(Compressed(text));
  std::string of_slow;
  std::string of_other;
  std::thread reader([&] {
    while (*ReadSome(*slow, 1, of_slow)) {
    }
  });
  gate.AwaitOneThatWaits();
  while (*ReadSome(*other, 1, of_other)) {
  }
  EXPECT_THAT(slow->where(), HasSubstr("compressed offset"));
  EXPECT_EQ(of_other, text);
  const std::set<std::thread::id> own = {reader.get_id()};
  gate.Open();
  reader.join();
  EXPECT_EQ(of_slow, text);
  EXPECT_EQ(readers, own);
}

// Ends the child: 0 where all that it read was right.
[[noreturn]] void ReadInChild(ByteStream& inherited, const std::string& inherited_text, bool must_fail, const std::string& file,
                              Compression compression, const std::string& text) {
  ::alarm(60);  // one that waits for a thread of its parent is killed
  std::vector<std::byte> buffer(10'000);
  const auto read = inherited.Read(buffer);
  const std::string_view got(reinterpret_cast<const char*>(buffer.data()), read.ok() ? *read : 0);
  const bool told = !read.ok() && read.status().code() == Code::kInvalid;
  if (must_fail ? !told : !told && inherited_text.find(got) == std::string::npos) ::_exit(1);
  (void)inherited.where();
  const auto open = [&] { return Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(file)), compression); };
  const auto a = open();
  const auto b = open();
  std::string of_a;
  std::string of_b;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [stream, of] : {std::pair(a.get(), &of_a), std::pair(b.get(), &of_b)}) {
      const auto some = stream->Read(buffer);
      if (!some.ok()) ::_exit(2);
      of->append(reinterpret_cast<const char*>(buffer.data()), *some);
      more = more || *some > 0;
    }
  }
  ::_exit(of_a == text && of_b == text ? 0 : 3);
}

TEST_P(InflateInTurns, AForkedChildIsToldOfAStreamThatAnotherThreadReads) {
  const std::string text = Text(4);
  const std::string file = Compressed(text);
  Gate gate;
  std::set<std::thread::id> readers;
  const auto slow = Inflate(std::make_unique<GatedInput>(file, 0, gate, readers), GetParam());
  std::string of_slow;
  std::thread reader([&] { EXPECT_TRUE(*ReadSome(*slow, 1, of_slow)); });
  gate.AwaitOneThatWaits();
  const pid_t child = ::fork();
  if (child == 0) ReadInChild(*slow, text, true, file, GetParam(), text);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gate.Open();
  reader.join();
}

TEST_P(InflateInTurns, AForkedChildNeverWaitsForAThreadOfItsParent) {
  const std::string text = Text(5).substr(0, 400'000);
  const std::string file = Compressed(text);
  std::atomic<bool> done = false;
  const auto idle = Open(file);  // others take it along
  std::string of_idle;
  ASSERT_TRUE(*ReadSome(*idle, 1, of_idle));
  // ASan's allocator, other than glibc's, leaves a child the locks that threads had at the fork: they allocate with this held, and read without.
  std::mutex allocating;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::unique_lock lock(allocating);
      std::vector<std::byte> buffer(50'000);
      std::string of;
      of.reserve(text.size());
      while (!done) {
        const auto stream = Open(file);
        lock.unlock();
        of.clear();
        for (size_t read = 1; read > 0 && of.size() <= text.size();) {
          read = *stream->Read(buffer);
          of.append(reinterpret_cast<const char*>(buffer.data()), read);
        }
        EXPECT_EQ(of, text);
        lock.lock();
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    std::unique_lock lock(allocating);
    const pid_t child = ::fork();
    if (child == 0) ReadInChild(*idle, text, false, file, GetParam(), text);
    lock.unlock();
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    std::vector<std::byte> some(5'000);
    EXPECT_TRUE(idle->Read(some).ok());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Compression, IsDetectedByMagicBytes) {
  const auto detect = [](std::string_view bytes) { return DetectCompression(std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(detect(Compress("x", Compression::kGzip)), Compression::kGzip);
  EXPECT_EQ(detect(Compress("x", Compression::kZlib)), Compression::kZlib);
  EXPECT_EQ(detect("plain"), Compression::kNone);
  EXPECT_EQ(detect(""), Compression::kNone);
}

TEST(Compression, HasNames) {
  EXPECT_EQ(*CompressionFromName("GZIP"), Compression::kGzip);
  EXPECT_EQ(*CompressionFromName(""), Compression::kNone);
  EXPECT_EQ(*CompressionFromName("auto"), Compression::kAuto);
  EXPECT_THAT(CompressionFromName("bzip2").status().message(), HasSubstr("'bzip2'; known are auto, none, gzip, zlib"));
}

}  // namespace
}  // namespace penstock
