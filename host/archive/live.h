#pragma once

#include "archive/archive.h"
#include "archive/write.h"

namespace tracehost::archive {

/// A traced function as an Entry, like one that was read from an archive, but without a file. The
/// Entry shares the Programs and the captures with `function`.
Entry live(SourceFunction function);

} // namespace tracehost::archive
