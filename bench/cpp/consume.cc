// A loop in C++ over a dataset of a running service: as many elements as are asked for, as fast as they come.
//   bench_consume ADDRESS DATASET-ID COUNT socket|shared
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "penstock/client.h"

namespace {

constexpr uint64_t kWarmUp = 16;

int Fail(const penstock::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return Fail(penstock::Status(penstock::Code::kInvalid, "bench_consume ADDRESS DATASET-ID COUNT socket|shared"));
  penstock::ConnectOptions options;
  options.service = arguments[1];
  if (const char* token = std::getenv("PENSTOCK_TOKEN")) options.token = token;
  options.shared_memory = std::string_view(arguments[4]) == "shared";
  const uint64_t wanted = std::strtoull(arguments[3], nullptr, 10);
  const auto client = penstock::Client::Connect(options);
  if (!client.ok()) return Fail(client.status());
  const auto reader = (*client)->Join(arguments[2], {});
  if (!reader.ok()) return Fail(reader.status());
  auto begin = std::chrono::steady_clock::now();
  uint64_t rows = 0;
  bool warm = false;
  while (rows < wanted) {
    const auto batch = (*reader)->Next();
    if (!batch.ok()) return Fail(batch.status());
    if (!batch->has_value()) break;
    rows += (*batch)->rows();
    if (!warm && rows >= kWarmUp) {
      warm = true;
      rows = 0;
      begin = std::chrono::steady_clock::now();
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"elements\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(rows), seconds);
}
