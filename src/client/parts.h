// One consumer's part of the position, made of what its shelf has delivered; and the answers to a dispatcher that asks for it.
#pragma once

#include <string>
#include <vector>

#include "client/delivery_log.h"
#include "client/shelf.h"
#include "penstock/client.h"
#include "plan/position.h"
#include "wire/messages.h"

namespace penstock {

// What a part says of the dataset.
struct PartFacts {
  std::string dataset;
  std::string rows;  // RowsFingerprint
  uint64_t seed = 0;
};

Position MakePart(const PartFacts& facts, const msg::Joined& joined, const DeliveryLog::Point& point);

// The step that a user means.
Result<uint64_t> StepOf(const StateOptions& options, const DeliveryLog::Point& current);

// Questions of the dispatcher that wait for the loop to come to their step.
class PartAsks {
 public:
  void Add(const msg::PartAsk& ask) { asks_.push_back(ask); }
  bool empty() const { return asks_.empty(); }
  // Answers to those whose step has come, or never will in this epoch. Where consumers are not declared, or the asker has had its END, they share no
  // steps: any cut is right, so what there is now is the answer.
  std::vector<msg::PartReply> Answer(const PartFacts& facts, const msg::Joined& joined, const Shelf& shelf);

 private:
  std::vector<msg::PartAsk> asks_;
};

}  // namespace penstock
