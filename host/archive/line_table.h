#pragma once

#include "archive/pickle.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The user's lines of a source, `save(..., source_paths=True)`, from the record that PyTorch's
/// writer puts beside it: for a place in the source, `net.py:12`.

namespace tracehost::archive {

class LineTable {
public:
  LineTable() = default;
  /// Throws Error: it has another form.
  explicit LineTable(std::string_view record);

  /// For what stands at `offset` of the source; empty: nothing is known.
  std::string place(std::size_t offset) const;

private:
  std::string text(std::uint32_t source) const;

  std::optional<Pickle> pickle_;
  std::uint32_t strings_ = 0;                                  ///< the item that holds them
  std::vector<std::pair<std::int64_t, std::uint32_t>> places_; ///< offset, item of the source there
};

} // namespace tracehost::archive
