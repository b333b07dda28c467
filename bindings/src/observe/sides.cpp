#include "observe/sides.h"

#include "base/user_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace tracehost::python {

void Sides::begin_attempt(Held held) {
  Side body;
  body.held = std::move(held);
  body.attempt = true;
  begin(std::move(body));
}

Sides::Side Sides::end() {
  Side ended = std::move(sides_.back());
  sides_.pop_back();
  attempts_ -= ended.attempt;
  if (sides_.empty() || sides_.back().real)
    refusals_ = 0;
  return ended;
}

bool Sides::in_side() const {
  return std::ranges::any_of(sides_, [](const Side &side) { return side.real && !side.rest; });
}

bool Sides::holds(PyObject *object) const {
  return std::ranges::any_of(sides_,
                             [object](const Side &side) { return side.held.contains(object); });
}

Sides::Side *Sides::innermost_side() {
  const auto found = std::ranges::find(sides_.rbegin(), sides_.rend(), false, &Side::attempt);
  return found == sides_.rend() ? nullptr : &*found;
}

bool Sides::is_checked() const {
  return std::ranges::any_of(sides_, [](const Side &side) { return side.opened; });
}

void Sides::note(Kind kind, const std::string &what) {
  const bool lost = (kind == Kind::lost || kind == Kind::own) && has_attempts();
  const bool once = kind == Kind::once || kind == Kind::lost;
  const Side *innermost = innermost_side();
  if (!lost && !innermost)
    return;
  // A print behind `if bad: return` stands in no side: it happens once a trace, as elsewhere.
  if (!lost && innermost->real && once && !in_side())
    return;
  const std::string found = fmt::format("{} at {}", what, text(user_line()));
  const bool refused = lost || !innermost->real;
  if (!refused && once && once_.empty())
    once_ = fmt::format("{}, in a side of the {}", found, innermost->where);
  const bool in_side = !sides_.back().attempt;
  for (Side &side : sides_ | std::views::reverse) {
    if (!side.attempt && side.real == refused)
      break;
    if (side.impure.empty() && (refused || !side.attempt)) {
      side.impure = found;
      side.in_side = in_side;
    }
  }
  if (refused) {
    refused_ = true;
    why_ = found;
    return;
  }
  if (!innermost->checkable)
    innermost->reject(found);
  for (Side &side : sides_)
    if (!side.attempt && !side.opened)
      side.check();
  for (Side &side : sides_ | std::views::reverse)
    if (!side.attempt && !std::exchange(side.opened, true))
      side.open();
}

bool Sides::refuses() {
  const bool refuses = std::exchange(refused_, false);
  refusals_ += refuses;
  return refuses;
}

} // namespace tracehost::python
