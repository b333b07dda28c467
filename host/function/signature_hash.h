#pragma once

#include "signature/signature.h"

#include <cstddef>
#include <functional>
#include <string>

namespace tracehost {

/// Of the text: Signatures that look alike have the same one. A front end's code may run in it:
/// never call it under a lock.
inline std::size_t hash_of_text(const Signature &signature) {
  return std::hash<std::string>()(text(signature));
}

} // namespace tracehost
