#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace tracehost::tape {

/// Memory of one output, new at each call, as `allocator` gives it: aligned to 64 bytes, and freed
/// by its deleter.
///
/// Problem. torch's allocator takes small memory by posix_memalign(), which glibc serves in 600
/// instructions. Its malloc() takes 25 where the thread has just freed memory of this size, as a
/// loop has that drops one result after another. Answer: malloc() is asked for the size of the
/// chunk that posix_memalign() took, and gives this chunk again once torch has freed it, by free().
/// A test when the library is loaded says whether it does. A chunk that is not aligned is another
/// one: a few are kept apart, so that they do not come each time.
class OutputMemory {
public:
  /// Hot.
  c10::DataPtr take(std::size_t bytes, c10::Allocator &allocator);

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::size_t chunk_ = 0;                          ///< that malloc() is asked for; 0: none
  std::vector<std::unique_ptr<void, Free>> apart_; ///< at most kMostApart
};

} // namespace tracehost::tape
