// Code of a plan, run in this process: `inline`.
#pragma once

#include <memory>

#include "engine/code.h"
#include "penstock/plan.h"

namespace penstock::python {

// The GIL is held, here only. Throws what the executor's package raises where the code cannot be loaded.
std::shared_ptr<CodeHost> MakeInlineHost(const Plan& plan);

}  // namespace penstock::python
