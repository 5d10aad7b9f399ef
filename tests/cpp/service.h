// A dispatcher and some workers in this process, on real sockets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dispatcher/server.h"
#include "engine/pipeline.h"
#include "penstock/client.h"
#include "worker/server.h"

namespace penstock {

class Service {
 public:
  explicit Service(int workers, std::string state_dir = "", std::string token = "") : token_(std::move(token)), state_dir_(std::move(state_dir)) {
    StartDispatcher("127.0.0.1:0");
    for (int i = 0; i < workers; ++i) AddWorker();
  }

  void AddWorker() { workers_.push_back(worker::WorkerServer::Start(WorkerOptions()).value()); }
  void StopWorker(size_t i) { workers_[i]->Stop(); }
  void DrainWorker(size_t i) { workers_[i]->Drain(); }

  // On the same address, from what it stored.
  void RestartDispatcher() {
    const std::string address = dispatcher_->address();
    dispatcher_.reset();
    StartDispatcher(address);
  }
  void StopDispatcher() { dispatcher_.reset(); }

  ConnectOptions Options() const {
    ConnectOptions options;
    options.service = "penstock://" + address_;
    options.token = token_;
    options.timeout = std::chrono::seconds(20);
    return options;
  }
  std::shared_ptr<Client> Connect() const { return Client::Connect(Options()).value(); }

 private:
  void StartDispatcher(const std::string& listen) {
    dispatcher::ServerOptions options;
    options.listen = listen;
    options.state_dir = state_dir_;
    options.token = token_;
    options.check_plan = [](std::string_view bytes) -> Status {
      PENSTOCK_ASSIGN(const Plan plan, ParsePlan(bytes));
      return CheckPlan(plan).status();
    };
    dispatcher_ = dispatcher::DispatcherServer::Start(std::move(options)).value();
    address_ = dispatcher_->address();
  }

  worker::WorkerServer::Options WorkerOptions() const {
    worker::WorkerServer::Options options;
    options.dispatcher = address_;
    options.memory = 64 << 20;
    options.cpus = 1;
    options.token = token_;
    return options;
  }

  const std::string token_;
  const std::string state_dir_;
  std::string address_;
  std::unique_ptr<dispatcher::DispatcherServer> dispatcher_;
  std::vector<std::unique_ptr<worker::WorkerServer>> workers_;
};

}  // namespace penstock
