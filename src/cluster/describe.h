// What `penstock doctor --env` prints: each question with its winner, the others and why.
#pragma once

#include <string>

#include "cluster/identity.h"

namespace penstock::cluster {

std::string Describe(const Report& report);      // for people, a few lines a question
std::string DescribeJson(const Report& report);  // for programs: one object, a member a question

}  // namespace penstock::cluster
