#pragma once

#include "archive/archive.h"
#include "archive/write.h"

namespace tracehost::archive {

/// A function as one that was read from an archive, without a file: the Programs and the captures
/// are the very ones.
Entry live(SourceFunction function);

} // namespace tracehost::archive
