#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A pickle as a tree, not as a program.
///
/// Problem: a pickle says what to call. Answer: this reader knows the few opcodes that PyTorch's
/// writer of TorchScript modules uses, calls nothing, and gives what would be called as a node with
/// its arguments. The reader of the tree accepts only calls and depths that it knows. The tree
/// takes less than a hundred bytes for each byte of the pickle.

namespace tracehost::archive {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,   ///< a string
  global, ///< `module name`
  tuple,  ///< `items`
  list,
  dict,       ///< keys and values in turn
  call,       ///< the first item, with the tuple that is the second
  object,     ///< a new one of the first item, with the state that is the second
  persistent, ///< of the first item
};

struct PickleItem {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0; ///< 0 or 1 for a boolean
  double real = 0;
  std::string text{};
  std::vector<std::uint32_t> items{}; ///< by index; for Pickle::at()
};

class Pickle {
public:
  /// Throws Error: it has other opcodes, or ends early. `name`: of the record, for messages.
  Pickle(std::string_view text, std::string name);

  const PickleItem &root() const { return items_[root_]; }
  const PickleItem &at(std::uint32_t index) const { return items_[index]; }
  /// Item `index` of `of`, which must be of that kind. Throws Error.
  const PickleItem &item(const PickleItem &of, std::size_t index, PickleKind kind) const;
  /// The arguments of a call of that global; null: it is none.
  const PickleItem *arguments(const PickleItem &item, std::string_view global) const;
  std::vector<std::int64_t> integers(const PickleItem &of) const; ///< of a tuple or list
  [[noreturn]] void wrong(std::string_view what) const;

private:
  class Machine;
  std::string name_;
  std::vector<PickleItem> items_;
  std::uint32_t root_ = 0;
};

} // namespace tracehost::archive
