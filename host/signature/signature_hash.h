#pragma once

#include "signature/signature.h"

#include <cstddef>

namespace tracehost {

/// Of the arguments. Equal Signatures have equal hashes; their contexts and what a trace has found
/// out are left aside. A front end's code may run in it: never call it under a lock.
std::size_t hash(const Signature &signature);

} // namespace tracehost
