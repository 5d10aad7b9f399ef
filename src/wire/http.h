// Answers GET requests of probes and people: one request a connection, small and bounded, so that nobody can hold it.
//
// A request is at most 8 KiB and must be there within 5 s; beyond 64 connections at once the newest are closed. It runs on a thread of its own:
// a server that is stuck can still say so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/status.h"

namespace penstock {

struct HttpResponse {
  int code = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

// On the server's own thread; may take a moment, but holds up the other requests. `path` is without the query.
using HttpHandler = std::function<HttpResponse(const std::string& path)>;

class HttpServer {
 public:
  // "host:port", ":port" for all interfaces; port 0 for any free one.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& address, HttpHandler handler);
  virtual ~HttpServer() = default;                 // stops
  virtual const std::string& address() const = 0;  // with the port that was got
};

}  // namespace penstock
