#include "dispatcher/tick.h"

#include <utility>

#include "base/planted.h"

namespace penstock::dispatcher {

void Tick::Take(Actions& actions) {
  for (Write& write : actions.persist) writes_[std::move(write.key)] = std::move(write.value);
  for (Send& send : actions.sends) words_.sends.push_back(std::move(send));
  for (Ask& ask : actions.asks) words_.asks.push_back(std::move(ask));
  actions.persist.clear();
  actions.sends.clear();
  actions.asks.clear();
}

Result<Tick::Words> Tick::Commit(const std::function<Status(const std::vector<Write>&)>& store) {
  Words words = std::exchange(words_, {});
  if (writes_.empty()) return words;
  std::vector<Write> batch;
  for (auto& [key, value] : writes_) batch.push_back({key, std::move(value)});
  writes_.clear();
  Status stored = store(batch);
  if (!stored.ok() && !Planted(Bug::kReplyBeforeCommit)) return stored;
  return words;
}

}  // namespace penstock::dispatcher
