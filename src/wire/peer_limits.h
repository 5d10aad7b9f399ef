// How much of a listener one peer may take: connections at once, those that have not said hello, and new ones a second. I/O thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace penstock {

struct PeerLimits {
  uint32_t connections = 4096;  // of one address
  uint32_t newcomers = 256;     // of one address, before hello
  uint32_t all_newcomers = 4096;
  uint32_t per_second = 1000;  // new ones of one address; twice as many in a burst
};

class PeerBook : public std::enable_shared_from_this<PeerBook> {
 public:
  explicit PeerBook(PeerLimits limits) : limits_(limits) {}

  // A place, held until its last copy goes.
  class Place {
   public:
    Place(std::shared_ptr<PeerBook> book, std::string peer);
    ~Place();
    Place(const Place&) = delete;
    void Admitted();  // it said a good hello

   private:
    const std::shared_ptr<PeerBook> book_;
    const std::string peer_;
    bool newcomer_ = true;
  };
  // Null: this peer has all it may have; `why` says of what.
  std::shared_ptr<Place> Enter(const std::string& peer, TimePoint now, std::string& why);

 private:
  struct Peer {
    uint32_t connections = 0;
    uint32_t newcomers = 0;
    double allowance = 0;  // new connections it may still make; grows with time
    TimePoint seen{};
  };
  void ForgetIdle(TimePoint now);

  const PeerLimits limits_;
  std::unordered_map<std::string, Peer> peers_;
  uint32_t newcomers_ = 0;
  size_t sweep_at_ = 1024;
};

}  // namespace penstock
