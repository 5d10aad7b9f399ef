// Arrow Flight with C++ on both sides, one element a message: a server and a client in processes of their own, nothing around them.
//   flight BYTES COUNT
// Compiled by bench/transport.py against the Arrow that pyarrow brings, so it is no target of CMake's.
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/flight/client.h>
#include <arrow/flight/server.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace {

namespace flight = arrow::flight;

constexpr uint64_t kWarmUp = 16;

void Must(const arrow::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(arrow::Result<T> result) {
  Must(result.status());
  return std::move(result).ValueUnsafe();
}

// The same row, so many times: it lies in the server's memory.
class Rows final : public arrow::RecordBatchReader {
 public:
  Rows(std::shared_ptr<arrow::RecordBatch> row, uint64_t count) : row_(std::move(row)), left_(count) {}

  std::shared_ptr<arrow::Schema> schema() const override { return row_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* next) override {
    *next = left_ > 0 ? row_ : nullptr;
    if (left_ > 0) --left_;
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatch> row_;
  uint64_t left_;
};

class Server final : public flight::FlightServerBase {
 public:
  Server(uint64_t bytes, uint64_t count) : count_(count) {
    const auto length = static_cast<int64_t>(bytes);
    auto values = std::make_shared<arrow::UInt8Array>(length, arrow::Buffer::FromVector(std::vector<uint8_t>(bytes)));
    row_ = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::uint8())}), length, {std::move(values)});
  }

  arrow::Status DoGet(const flight::ServerCallContext& /*context*/, const flight::Ticket& /*ticket*/,
                      std::unique_ptr<flight::FlightDataStream>* stream) override {
    *stream = std::make_unique<flight::RecordBatchStream>(std::make_shared<Rows>(row_, count_));
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatch> row_;
  uint64_t count_;
};

// Tells its port, and serves until it is killed.
[[noreturn]] void Serve(int told, uint64_t bytes, uint64_t count) {
  Server server(bytes, count);
  Must(server.Init(flight::FlightServerOptions(Must(flight::Location::ForGrpcTcp("127.0.0.1", 0)))));
  const int port = server.port();
  if (write(told, &port, sizeof port) != sizeof port) std::exit(1);
  Must(server.Serve());
  std::exit(0);
}

double Receive(int port, uint64_t bytes, uint64_t count) {
  const auto client = Must(flight::FlightClient::Connect(Must(flight::Location::ForGrpcTcp("127.0.0.1", port))));
  const auto reader = Must(client->DoGet(flight::Ticket{"rows"}));
  for (uint64_t i = 0; i < kWarmUp; ++i) Must(reader->Next());
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    if (Must(reader->Next()).data->num_rows() != static_cast<int64_t>(bytes)) std::exit(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const uint64_t bytes = std::strtoull(arguments[1], nullptr, 10);
  const uint64_t elements = std::strtoull(arguments[2], nullptr, 10);
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  const pid_t server = fork();  // before gRPC has threads
  if (server == 0) Serve(pipes[1], bytes, elements + 2 * kWarmUp);
  close(pipes[1]);
  int port = 0;
  const bool up = read(pipes[0], &port, sizeof port) == sizeof port;
  const double seconds = up ? Receive(port, bytes, elements) : 0;
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  if (up) std::printf("{\"elements\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(elements), seconds);
  std::fflush(stdout);
  _exit(up ? 0 : 1);
}
