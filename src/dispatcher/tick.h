// What the core asked for since the last commit: all of it is stored in one transaction, and only then said (design section 3, invariant 5).
// The server and the simulator differ in the store and in who hears it, not in this.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dispatcher/core.h"

namespace penstock::dispatcher {

class Tick {
 public:
  struct Words {
    std::vector<Send> sends;
    std::vector<Ask> asks;
  };

  // Takes what is to be stored and said out of `actions`.
  void Take(Actions& actions);
  bool empty() const { return writes_.empty() && words_.sends.empty() && words_.asks.empty(); }
  bool has_writes() const { return !writes_.empty(); }

  // Stores, then gives what may be said now. Where `store` fails nothing may ever be said, and all of it is forgotten.
  Result<Words> Commit(const std::function<Status(const std::vector<Write>&)>& store);

 private:
  std::map<std::string, std::optional<std::string>> writes_;  // the last one of a key counts
  Words words_;
};

}  // namespace penstock::dispatcher
