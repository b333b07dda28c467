#include "report/replay.h"

#include <algorithm>
#include <map>
#include <vector>

namespace tracehost::report {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A trace that would still be made.
struct Made {
  const TraceRecord *record;
  std::vector<Sizes> sizes; ///< by tensor; kAnySize where dynamic
};

/// The tensors of two calls that stand at the same places, if they differ in nothing else.
struct Pairs {
  bool alike = false;
  std::map<std::int32_t, std::int32_t> of; ///< earlier's -> later's
};

/// Numbers at the paths `tensors` are 0-dim tensors.
Pairs pairs(const Sketch &a, const Sketch &b, const std::set<std::string> &tensors) {
  Pairs result;
  std::map<std::int32_t, std::int32_t> back;
  if (a.empty() || a.nodes.size() != b.nodes.size())
    return result;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Sketch::Node &x = a.nodes[i], &y = b.nodes[i];
    const bool both = x.kind == Kind::tensor && y.kind == Kind::tensor;
    if (both) {
      const auto &s = a.tensors[static_cast<std::size_t>(x.tensor)];
      const auto &t = b.tensors[static_cast<std::size_t>(y.tensor)];
      if (s.dtype != t.dtype || s.sizes.size() != t.sizes.size() ||
          result.of.emplace(x.tensor, y.tensor).first->second != y.tensor ||
          back.emplace(y.tensor, x.tensor).first->second != x.tensor)
        return result;
    } else if (tensors.contains(x.path) && tensors.contains(y.path)) {
      for (const auto *node : {&x, &y})
        if (node->kind == Kind::tensor &&
            !(node == &x ? a : b).tensors[static_cast<std::size_t>(node->tensor)].sizes.empty())
          return result; // a number is of no dimension
    } else if (x.kind != y.kind || x.end != y.end || x.text != y.text) {
      return result;
    }
  }
  result.alike = true;
  return result;
}

/// Whether the two were compared when `later` was traced, and could be one.
bool kin(const TraceRecord &earlier, const TraceRecord &later) {
  return earlier.function == later.function &&
         std::find(later.alike.begin(), later.alike.end(), earlier.number) != later.alike.end();
}

bool is_conditional(const TraceRecord &record) {
  return std::any_of(record.differences.begin(), record.differences.end(), [](const Difference &d) {
    return d.cause == Cause::condition || d.cause == Cause::read;
  });
}

bool takes(const Sizes &sizes, const Sizes &given) {
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != kAnySize && sizes[d] != given[d])
      return false;
  return true;
}

bool takes(const Made &made, const Made &request, const Pairs &pairs) {
  return std::all_of(pairs.of.begin(), pairs.of.end(), [&](const auto &pair) {
    return takes(made.sizes[static_cast<std::size_t>(pair.first)],
                 request.sizes[static_cast<std::size_t>(pair.second)]);
  });
}

void generalize(Made &request, const Made &earlier, const Pairs &pairs) {
  for (const auto &[from, to] : pairs.of) {
    const Sizes &theirs = earlier.sizes[static_cast<std::size_t>(from)];
    Sizes &ours = request.sizes[static_cast<std::size_t>(to)];
    for (std::size_t d = 0; d < ours.size(); ++d)
      if (ours[d] != theirs[d])
        ours[d] = kAnySize;
  }
}

/// How many of the last `counted` records an earlier record serves. `declared`: sizes are not
/// compared.
std::size_t saved(std::span<const TraceRecord> records, std::size_t counted,
                  const std::set<std::string> &tensors, bool declared) {
  std::vector<Made> made;
  std::size_t count = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    Made request{&records[i], {}};
    for (const auto &tensor : records[i].request.tensors)
      request.sizes.push_back(tensor.sizes);
    std::vector<std::pair<const Made *, Pairs>> near;
    for (const Made &earlier : made)
      if (kin(*earlier.record, records[i]))
        if (auto found = pairs(earlier.record->request, records[i].request, tensors); found.alike)
          near.emplace_back(&earlier, std::move(found));
    const bool served =
        !is_conditional(records[i]) && std::any_of(near.begin(), near.end(), [&](const auto &n) {
          return declared || takes(*n.first, request, n.second);
        });
    if (served) {
      count += i + counted >= records.size();
      continue;
    }
    for (const auto &[earlier, found] : near)
      generalize(request, *earlier, found);
    made.push_back(std::move(request));
  }
  return count;
}

} // namespace

std::size_t saved_by_reducing(std::span<const TraceRecord> records, std::size_t counted,
                              const std::set<std::string> &tensors) {
  return saved(records, counted, tensors, false);
}

std::size_t saved_by_declaring(std::span<const TraceRecord> records, std::size_t counted,
                               const Declared &declared) {
  return saved(records, counted, declared.numbers, true);
}

} // namespace tracehost::report
