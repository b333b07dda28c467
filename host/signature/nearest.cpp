#include "signature/difference.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tracehost {
namespace {

struct Named {
  const char *name;
  int weight; ///< in quarters of a changed size: what a user would call farther weighs more
};

/// By Cause.
constexpr std::array<Named, 17> causes = {{
    {"shape", 4},
    {"rank", 7},
    {"dtype", 6},
    {"device", 6},
    {"layout", 5},
    {"requires_grad", 5},
    {"subclass", 6},
    {"alias", 5},
    {"value", 4},
    {"type", 12},
    {"structure", 12},
    {"object", 4},
    {"context", 4},
    {"guard", 4},
    {"capture", 4},
    {"condition", 4},
    {"read", 4},
}};
static_assert(causes.size() == static_cast<std::size_t>(Cause::read) + 1);

const Named &named(Cause cause) { return causes[static_cast<std::size_t>(cause)]; }

} // namespace

const char *name(Cause cause) { return named(cause).name; }

int distance(const std::vector<Difference> &differences) {
  int sum = 0;
  for (const auto &difference : differences)
    sum += named(difference.cause).weight;
  return sum;
}

int least_distance() { return std::ranges::min(causes, {}, &Named::weight).weight; }

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
