#include "observe/sides.h"

#include "base/user_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace tracehost::python {

std::string Sides::end() {
  std::string impure = std::move(sides_.back().impure);
  sides_.pop_back();
  if (sides_.empty() || sides_.back().real)
    refusals_ = 0;
  return impure;
}

bool Sides::in_side() const {
  return std::ranges::any_of(sides_, [](const Side &side) { return side.real && !side.rest; });
}

bool Sides::holds(PyObject *iterator) const {
  return std::ranges::any_of(sides_, [iterator](const Side &side) {
    return !side.real && std::ranges::find(side.iterators, iterator) != side.iterators.end();
  });
}

bool Sides::is_checked() const {
  return std::ranges::any_of(sides_, [](const Side &side) { return side.opened; });
}

void Sides::note(Kind kind, const std::string &what) {
  if (sides_.empty())
    return;
  const Side &innermost = sides_.back();
  // A print behind `if bad: return` stands in no side: it happens once a trace, as elsewhere.
  if (innermost.real && kind == Kind::once && !in_side())
    return;
  const std::string found = fmt::format("{} at {}", what, text(user_line()));
  if (innermost.real && kind == Kind::once && once_.empty())
    once_ = fmt::format("{}, in a side of the {}", found, innermost.where);
  for (Side &side : sides_ | std::views::reverse) {
    if (side.real != innermost.real)
      break;
    if (side.impure.empty())
      side.impure = found;
  }
  if (!innermost.real) {
    refused_ = true;
    why_ = found;
    return;
  }
  if (!innermost.checkable)
    innermost.reject(found);
  for (Side &side : sides_)
    if (!side.opened)
      side.check();
  for (Side &side : sides_ | std::views::reverse)
    if (!std::exchange(side.opened, true))
      side.open();
}

bool Sides::refuses() {
  const bool refuses = std::exchange(refused_, false);
  refusals_ += refuses;
  return refuses;
}

} // namespace tracehost::python
