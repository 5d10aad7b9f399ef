// Where the dispatcher's state is kept: keys and values, written in transactions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/ids.h"
#include "penstock/status.h"

namespace penstock::dispatcher {

struct Write {
  std::string key;
  std::optional<std::string> value;  // nullopt: the key goes
};

// One thread at a time.
class Store {
 public:
  virtual ~Store() = default;
  // Made once with the store, and the same ever after.
  virtual const std::string& cluster() const = 0;
  // How often the store was opened, this time included.
  virtual Term term() const = 0;
  virtual Result<std::map<std::string, std::string>> Load() = 0;
  // Where this dispatcher can be reached, for another that finds the store in use.
  virtual Status Announce(const std::string& address) = 0;
  // All or nothing, and durable when it returns Ok. After an error nothing of it is there, and the caller should stop: what it holds in memory
  // is ahead of the store.
  virtual Status Commit(const std::vector<Write>& writes) = 0;
};

// `dir` is made if missing; it holds state.db and the lock. Exclusive: a second dispatcher on the same directory gets Exists, with the first
// one's process and address.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& dir);

// Lives as long as the process: for a dispatcher without a state directory.
std::unique_ptr<Store> MakeMemoryStore();

}  // namespace penstock::dispatcher
