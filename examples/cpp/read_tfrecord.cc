// Reads TFRecords of tf.Examples that have an int64 "id" and sums it up: a trainer's loop in C++.
//
//   read_tfrecord penstock://127.0.0.1:5050 '/data/part-*.tfrecord.gz'     rows made by the workers of a service
//   penstock local -- sh -c 'read_tfrecord "$PENSTOCK_SERVICE" FILES…'       the same, with a service for as long as it runs
//   read_tfrecord inline '/data/part-*.tfrecord.gz'                        the same rows, made in this process
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "penstock/client.h"
#include "penstock/dataset.h"

namespace {

using penstock::Batch;
using penstock::Reader;
using penstock::Result;

Result<std::unique_ptr<Reader>> OpenReader(const std::string& service, const penstock::Plan& plan) {
  if (service == "inline") return penstock::ReadInline(plan, {});
  const char* token = std::getenv("PENSTOCK_TOKEN");  // `penstock local` sets it
  PENSTOCK_ASSIGN(auto client, penstock::Client::Connect({.service = service, .token = token == nullptr ? "" : token}));
  return client->Distribute(plan, {});  // the reader goes on without the client
}

// A column without a ragged dimension is one dense array: here, one int64 a row.
int64_t SumOf(const Batch& batch, size_t column) {
  std::vector<int64_t> values(batch.rows());
  const auto bytes = batch.column(column).values();
  std::memcpy(values.data(), bytes.data(), bytes.size());
  int64_t sum = 0;
  for (const int64_t value : values) sum += value;
  return sum;
}

penstock::Status Run(const std::string& service, std::vector<std::string> files) {
  const auto dataset =
      penstock::Dataset::TFRecord(std::move(files)).ParseExample({{.name = "id", .dtype = penstock::DType::kInt64}}).Shuffle(1000).Batch(32);
  PENSTOCK_ASSIGN(auto reader, OpenReader(service, dataset.plan()));
  uint64_t rows = 0;
  uint64_t batches = 0;
  int64_t sum = 0;
  while (true) {
    PENSTOCK_ASSIGN(auto batch, reader->Next());
    if (!batch.has_value()) break;
    rows += batch->rows();
    sum += SumOf(*batch, 0);
    ++batches;
  }
  std::printf("rows %llu batches %llu sum %lld\n", static_cast<unsigned long long>(rows), static_cast<unsigned long long>(batches),
              static_cast<long long>(sum));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SERVICE FILES…\n", argv[0]);
    return 2;
  }
  const penstock::Status status = Run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
