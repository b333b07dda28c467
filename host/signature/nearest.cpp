#include "signature/difference.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tracehost {
namespace {

/// In units of a quarter of a changed size, by Cause: what a user would call farther weighs more.
constexpr std::array<int, 17> weights = {
    4,  // shape
    7,  // rank
    6,  // dtype
    6,  // device
    5,  // layout
    5,  // requires_grad
    6,  // subclass
    5,  // alias
    4,  // value
    12, // type
    12, // structure
    4,  // object
    4,  // context
    4,  // guarded slot
    4,  // capture
    4,  // condition
    4,  // read
};
static_assert(weights.size() == static_cast<std::size_t>(Cause::read) + 1);

} // namespace

int distance(const std::vector<Difference> &differences) {
  int sum = 0;
  for (const auto &difference : differences)
    sum += weights[static_cast<std::size_t>(difference.cause)];
  return sum;
}

int least_distance() { return *std::min_element(weights.begin(), weights.end()); }

void Nearest::consider(std::size_t candidate, const Signature &specialization,
                       const Signature &request) {
  consider(candidate, tracehost::differences(specialization, request));
}

bool Nearest::may_be(std::size_t candidate, int least) const {
  if (index == npos)
    return true;
  const int best = distance(differences);
  return least < best || (least == best && candidate >= index);
}

void Nearest::consider(std::size_t candidate, std::vector<Difference> found) {
  if (!may_be(candidate, distance(found)))
    return;
  index = candidate;
  differences = std::move(found);
}

} // namespace tracehost
