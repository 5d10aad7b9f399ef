// Plain Kubernetes: the variables that the kubelet sets for a service named penstock-dispatcher, and what a manifest passes on by the downward API.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kHost = "PENSTOCK_DISPATCHER_SERVICE_HOST";
constexpr std::string_view kPort = "PENSTOCK_DISPATCHER_SERVICE_PORT";
constexpr std::string_view kReplicaType = "PENSTOCK_REPLICA_TYPE";
constexpr std::string_view kPodIp = "POD_IP";

Result<Service> ServiceOf(const Environment& environment, const std::string& host) {
  if (!IsHost(host)) return Malformed(kHost, host, "the address of the service penstock-dispatcher");
  const std::string* port = Find(environment, kPort);
  if (port == nullptr) return Missing(kPort, "PENSTOCK_DISPATCHER_SERVICE_HOST is", "set both, or PENSTOCK_SERVICE");
  const auto number = ToNumber(*port);
  if (!number || *number == 0 || *number > 65'535) return Malformed(kPort, *port, "a port from 1 to 65535");
  return Service(Address{host, static_cast<uint16_t>(*number)});
}

}  // namespace

Opinion<Service> KubernetesService(const Inputs& in) {
  const std::string* host = Find(in.environment, kHost);
  if (host == nullptr) return {};
  return {ServiceOf(in.environment, *host), "PENSTOCK_DISPATCHER_SERVICE_HOST, _PORT"};
}

Opinion<Role> KubernetesRole(const Inputs& in) {
  const std::string* type = Find(in.environment, kReplicaType);
  if (type == nullptr) return {};
  return {ParseReplicaType(kReplicaType, *type), std::string(kReplicaType)};
}

Opinion<Address> KubernetesAdvertise(const Inputs& in) {
  const std::string* ip = Find(in.environment, kPodIp);
  if (ip == nullptr) return {};
  if (!IsHost(*ip)) return {Malformed(kPodIp, *ip, "the pod's IP address (status.podIP by the downward API)"), std::string(kPodIp)};
  return {Address{*ip, 0}, std::string(kPodIp)};
}

}  // namespace penstock::cluster
