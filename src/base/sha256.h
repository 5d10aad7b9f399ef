// SHA-256, piece by piece or at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes);
  void AddNumber(uint64_t number);  // as 8 little-endian bytes
  std::string Hex();                // 64 digits; the last call

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace penstock
