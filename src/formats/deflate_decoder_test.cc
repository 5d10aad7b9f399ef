#include "formats/deflate_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "formats/compression.h"

namespace penstock {
namespace {

using Stop = DeflateDecoder::Stop;

struct Outcome {
  Stop stop;
  std::string text;
  std::string why;
};

Outcome Decode(const std::string& data) {
  std::vector<uint8_t> in(data.begin(), data.end());
  in.resize(data.size() + DeflateDecoder::kInputSlack);
  std::vector<uint8_t> out(1000 + DeflateDecoder::kOutputSlack);
  DeflateBytes at{in.data(), in.data() + data.size(), true, out.data(), out.data(), out.data() + 1000};
  const auto decoder = std::make_unique<DeflateDecoder>();
  const Stop stop = decoder->Run(at);
  return {stop, std::string(out.data(), at.out), std::string(decoder->why())};
}

std::string Bytes(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(DeflateDecoder, ReadsStoredAndFixedBlocks) {
  const std::string stored = Bytes({0x00, 0x03, 0x00, 0xFC, 0xFF}) + "oh, ";
  const Outcome both = Decode(stored.substr(0, 8) + Bytes({0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00}));
  EXPECT_EQ(both.stop, Stop::kEnd);
  EXPECT_EQ(both.text, "oh,hello");
}

TEST(DeflateDecoder, WantsMoreWhereverTheDataIsCut) {
  const std::string hello = Bytes({0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00});
  for (size_t length = 0; length < hello.size(); ++length) {
    const Outcome cut = Decode(hello.substr(0, length));
    EXPECT_EQ(cut.stop, Stop::kInput);
    EXPECT_EQ(cut.text, std::string("hello").substr(0, cut.text.size()));
  }
}

TEST(DeflateDecoder, SaysHowDataAreDamaged) {
  EXPECT_EQ(Decode(Bytes({0x07, 0, 0})).why, "an invalid block");                       // there is no such kind
  EXPECT_EQ(Decode(Bytes({0x01, 1, 0, 1, 0, 'x'})).why, "an invalid block");            // a length that its complement denies
  EXPECT_EQ(Decode(Bytes({0x03, 0x02, 0, 0})).why, "a reference to before its start");  // a match at the start
  EXPECT_EQ(Decode(Bytes({0x1B, 0x03, 0, 0})).why, "an invalid symbol");                // 286 in fixed codes
}

// DEFLATE data and what it decodes to, by every loop that this processor can run.
class DecoderLoops : public ::testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (GetParam() == Instructions::kBmi2 && BestInstructions() != Instructions::kBmi2) GTEST_SKIP() << "the processor has no BMI2";
  }
};
INSTANTIATE_TEST_SUITE_P(By, DecoderLoops, ::testing::Values(Instructions::kBaseline, Instructions::kBmi2),
                         [](const auto& by) { return by.param == Instructions::kBmi2 ? "Bmi2" : "Baseline"; });

std::string Text(uint64_t seed) {
  std::string text;
  const RandomStream stream({.seed = seed});
  for (Seq i = 0; i < 60'000; ++i) {
    const uint32_t number = stream.At(i).Next32();
    text += number % 3 == 0   ? std::string(number % 40, 'a')
            : number % 3 == 1 ? std::to_string(number)
                              : std::string(1, static_cast<char>(number >> 8));
  }
  return text;
}

std::string Deflated(std::string_view text) {
  Deflater deflater(Compression::kZlib);
  std::string out;
  deflater.Add(text, out);
  deflater.Finish(out);
  return out.substr(2, out.size() - 6);  // without header and checksum
}

// A decoder that is given input and room piece by piece, of random sizes.
class InPieces {
 public:
  InPieces(const std::string& data, size_t text, Instructions instructions, uint64_t seed)
      : decoder(instructions),
        random_({.seed = seed}),
        data_(data),
        in_(data.begin(), data.end()),
        out_(text + DeflateDecoder::kOutputSlack),
        text_(text) {
    in_.resize(data.size() + DeflateDecoder::kInputSlack);
    at.in = at.in_end = in_.data();
    at.begin = at.out = at.out_end = out_.data();
  }
  void GiveMore() {
    at.in_end = std::min<const uint8_t*>(at.in_end + Some(), in_.data() + data_.size());
    at.last = at.in_end == in_.data() + data_.size();
    at.out_end = std::min(std::max(at.out, at.out_end) + Some(), out_.data() + text_ + 1);  // one more: the data's end is behind the last byte
  }
  std::string text() const { return {reinterpret_cast<const char*>(out_.data()), static_cast<size_t>(at.out - out_.data())}; }

  DeflateDecoder decoder;
  DeflateBytes at;

 private:
  size_t Some() { return random_.At(next_++).Next32() % 5000; }

  RandomStream random_;
  Seq next_ = 0;
  const std::string& data_;
  std::vector<uint8_t> in_;
  std::vector<uint8_t> out_;
  size_t text_;
};

TEST_P(DecoderLoops, DecodeOneStreamInPiecesOfAnySize) {
  const std::string text = Text(1);
  const std::string data = Deflated(text);
  const auto one = std::make_unique<InPieces>(data, text.size(), GetParam(), 7);
  while (one->decoder.Run(one->at) != Stop::kEnd) {
    ASSERT_NE(one->decoder.Run(one->at), Stop::kDamaged);
    one->GiveMore();
  }
  EXPECT_TRUE(one->text() == text);
}

TEST_P(DecoderLoops, DecodeTwoStreamsTogetherInPiecesOfAnySize) {
  const std::array texts = {Text(2), Text(3)};
  const std::array data = {Deflated(texts[0]), Deflated(texts[1])};
  const auto a = std::make_unique<InPieces>(data[0], texts[0].size(), GetParam(), 8);
  const auto b = std::make_unique<InPieces>(data[1], texts[1].size(), GetParam(), 9);
  size_t together = 0;
  while (!a->decoder.over() || !b->decoder.over()) {
    const uint8_t* const before = a->at.out;
    DeflateDecoder::RunTogether(a->decoder, a->at, b->decoder, b->at);
    together += static_cast<size_t>(a->at.out - before);
    for (InPieces* one : {a.get(), b.get()}) {
      uint8_t* const room = one->at.out_end;
      one->at.out_end = std::min(room, one->at.out + 1);  // what is no symbol
      ASSERT_NE(one->decoder.Run(one->at), Stop::kDamaged);
      one->at.out_end = room;
      one->GiveMore();
    }
  }
  EXPECT_TRUE(a->text() == texts[0]);
  EXPECT_TRUE(b->text() == texts[1]);
  EXPECT_GT(together, texts[0].size() / 2);
}

TEST(HuffmanTable, LengthsThatAreNoCodeAreRefused) {
  std::array<uint32_t, 1408> table;
  const auto build = [&table](std::vector<uint8_t> lengths) { return BuildTable(lengths, kLiteralSymbols, kLiteralBits, table); };
  EXPECT_TRUE(build({1, 1}));
  EXPECT_TRUE(build({1, 2, 2}));
  EXPECT_FALSE(build({1, 1, 1})) << "too many";
  EXPECT_FALSE(build({2, 2, 2})) << "too few";
  EXPECT_TRUE(build({0, 0, 0})) << "none occurs";
  EXPECT_TRUE(build({0, 1, 0})) << "one occurs";
  EXPECT_FALSE(build({0, 2, 0}));
}

TEST(HuffmanTable, LongCodesHaveTablesOfTheirOwn) {
  std::array<uint32_t, 1408> table;
  std::vector<uint8_t> lengths;
  for (uint8_t i = 1; i < 15; ++i) lengths.push_back(i);
  lengths.insert(lengths.end(), 2, 15);
  ASSERT_TRUE(BuildTable(lengths, kLiteralSymbols, kLiteralBits, table));
  EXPECT_EQ(table[0], kLiteralSymbols[0] | 0x101);
  EXPECT_EQ(table[1], kLiteralSymbols[1] | 0x202);  // codes begin at the lowest bit: 10
  const uint32_t pointer = table[(1U << kLiteralBits) - 1];
  ASSERT_TRUE(pointer & kPointer);
  EXPECT_EQ(pointer >> 8 & 15, 5U);
  EXPECT_EQ(table[pointer >> 16], kLiteralSymbols[10] | 0x101);
  EXPECT_EQ(table[(pointer >> 16) + 31], kLiteralSymbols[15] | 0x505);
}

}  // namespace
}  // namespace penstock
