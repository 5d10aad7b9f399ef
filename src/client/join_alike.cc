#include "client/join_alike.h"

#include "base/log.h"
#include "plan/attrs.h"

namespace penstock {
namespace {

// Whether two datasets have the same elements, so that who wants the one may read the other.
bool HaveSameElements(const Plan& one, const Plan& other) {
  const AttrValue* specs[] = {one.nodes.back().attrs.Find("element_spec"), other.nodes.back().attrs.Find("element_spec")};
  const Bytes* contents[] = {specs[0] == nullptr ? nullptr : std::get_if<Bytes>(specs[0]),
                             specs[1] == nullptr ? nullptr : std::get_if<Bytes>(specs[1])};
  return contents[0] != nullptr && contents[1] != nullptr && **contents[0] == **contents[1];
}

}  // namespace

Result<std::unique_ptr<Reader>> JoinAlike(Client& client, const std::string& dataset, const ReadOptions& options) {
  Result<std::unique_ptr<Reader>> joined = client.Join(dataset, options);
  if (joined.ok() || joined.status().code() != Code::kMismatch || options.job_name.empty()) return joined;
  PENSTOCK_ASSIGN(const std::string found, client.FindJob(options.job_name));
  if (found == dataset) return joined;
  PENSTOCK_ASSIGN(const Plan theirs, client.GetDataset(found));
  PENSTOCK_ASSIGN(const Plan ours, client.GetDataset(dataset));
  if (!HaveSameElements(theirs, ours)) return joined;
  LogWarn("job.reads_alike", {{"job", options.job_name}, {"reads", found}, {"asked_for", dataset}});
  return client.Join(found, options);
}

}  // namespace penstock
