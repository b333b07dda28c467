#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace tracehost::tape {

/// Hot. Memory for a new output, as `allocator` gives it: aligned to 64 bytes, and freed by its
/// deleter.
///
/// Problem. torch's allocator takes small memory by posix_memalign(), which glibc serves in 600
/// instructions. Its malloc() takes 25 where the thread has just freed memory of this size, as a
/// loop has that drops one result after another. Answer: memory of malloc()'s that is aligned is
/// memory that posix_memalign() gave before, and torch frees both by free(). This holds where a
/// test at the first output says so: memory that torch has freed is what malloc() gives next.
c10::DataPtr memory_for(std::size_t bytes, c10::Allocator &allocator);

} // namespace tracehost::tape
