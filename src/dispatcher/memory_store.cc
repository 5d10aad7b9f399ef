#include <random>

#include "dispatcher/cluster_id.h"
#include "dispatcher/store.h"

namespace penstock::dispatcher {
namespace {

class MemoryStore final : public Store {
 public:
  const std::string& cluster() const override { return cluster_; }
  Term term() const override { return Term{1}; }
  Result<std::map<std::string, std::string>> Load() override { return values_; }
  Status Announce(const std::string&) override { return {}; }

  Status Commit(const std::vector<Write>& writes) override {
    for (const Write& write : writes) {
      if (write.value.has_value()) {
        values_[write.key] = *write.value;
      } else {
        values_.erase(write.key);
      }
    }
    return {};
  }

 private:
  const std::string cluster_ = NewClusterId();
  std::map<std::string, std::string> values_;
};

}  // namespace

std::string NewClusterId() {
  std::random_device random;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 16; ++i) id += kDigits[random() % 16];
  return id;
}

std::unique_ptr<Store> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace penstock::dispatcher
