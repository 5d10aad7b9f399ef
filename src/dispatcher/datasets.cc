#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {

// Idempotent: the same plan is the same dataset.
void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Register& message) {
  Result<std::string> dataset = options_.check_plan(message.plan);
  if (!dataset.ok()) return Fail(session, request, dataset.status());
  if (datasets_.emplace(*dataset, message.plan).second) {
    Put(DatasetKey(*dataset), message.plan);
    Log("dataset " + *dataset + " registered");
  }
  Reply(session, request, msg::Registered{*dataset});
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::GetDataset& message) {
  auto dataset = datasets_.find(message.dataset);
  if (dataset == datasets_.end()) {
    return Fail(session, request, Status(Code::kNotFound, "no dataset " + message.dataset + " is registered here: register it first"));
  }
  Reply(session, request, msg::DatasetReply{dataset->first, dataset->second});
}

}  // namespace penstock::dispatcher
