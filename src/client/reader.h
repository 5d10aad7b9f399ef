// A Reader over a service: the shell around ClientCore and Shelf. The core runs on the hub's I/O thread, delivery on the loop's.
#pragma once

#include <memory>
#include <string>

#include "penstock/client.h"
#include "wire/dispatcher_link.h"

namespace penstock {

struct ReaderParams {
  std::string address;  // of the dispatcher
  ConnectOptions connect;
  std::shared_ptr<const Tls> tls;  // null: plain
  std::shared_ptr<ServiceIdentity> identity;
  msg::Join join;
  ReadOptions read;
  std::string plan;  // SerializePlan
  std::string rows;  // RowsFingerprint
};

// Joins, and waits for it at most connect.timeout, or read.stall_timeout where that is shorter; the error then says what was waited for.
Result<std::unique_ptr<Reader>> JoinJob(ReaderParams params);

}  // namespace penstock
