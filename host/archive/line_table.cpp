#include "archive/line_table.h"

#include <algorithm>

namespace tracehost::archive {
namespace {

constexpr std::size_t kLongestPlace = 4096;

} // namespace

LineTable::LineTable(std::string_view record)
    : pickle_(std::in_place, record, "code/__torch__/tracehost.py.debug_pkl") {
  const PickleItem &root = pickle_->root();
  if (root.kind != PickleKind::tuple || root.items.size() != 3 ||
      pickle_->item(root, 0, PickleKind::text).text != "FORMAT_WITH_STRING_TABLE")
    pickle_->wrong("has another form");
  pickle_->item(root, 1, PickleKind::tuple);
  strings_ = root.items[1];
  const PickleItem &all = pickle_->item(root, 2, PickleKind::tuple);
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    const PickleItem &one = pickle_->item(all, i, PickleKind::tuple);
    const PickleItem &range = pickle_->item(one, 1, PickleKind::tuple);
    pickle_->item(range, 0, PickleKind::tuple);
    places_.emplace_back(pickle_->item(one, 0, PickleKind::integer).integer, range.items[0]);
  }
  if (!std::is_sorted(places_.begin(), places_.end(),
                      [](const auto &a, const auto &b) { return a.first < b.first; }))
    pickle_->wrong("is not in order");
}

std::string LineTable::text(std::uint32_t source) const {
  const PickleItem &of = pickle_->at(source), &strings = pickle_->at(strings_);
  const auto *arguments =
      pickle_->arguments(pickle_->item(of, 0, PickleKind::call), "torch.jit._pickle build_intlist");
  if (!arguments)
    pickle_->wrong("has another form");
  std::string result;
  for (const std::int64_t index :
       pickle_->integers(pickle_->item(*arguments, 0, PickleKind::list))) {
    if (index < 0)
      pickle_->wrong("has another form");
    result += pickle_->item(strings, static_cast<std::size_t>(index), PickleKind::text).text;
    if (result.size() > kLongestPlace)
      pickle_->wrong("names a file by a text that is too long");
  }
  return result;
}

std::string LineTable::place(std::size_t offset) const {
  const auto behind =
      std::upper_bound(places_.begin(), places_.end(), static_cast<std::int64_t>(offset),
                       [](std::int64_t wanted, const auto &place) { return wanted < place.first; });
  if (behind == places_.begin())
    return {};
  // As lower.cpp writes them: `net.py(12): `
  const std::string written = text(std::prev(behind)->second);
  const auto open = written.rfind('('), close = written.rfind("): ");
  if (open == std::string::npos || close == std::string::npos || close < open)
    return {};
  return written.substr(0, open) + ":" + written.substr(open + 1, close - open - 1);
}

} // namespace tracehost::archive
