#include "report/message.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::report {
namespace {

constexpr std::size_t most_causes = 3;

/// What each remedy saves, alone and with the others: a batch's images and its labels may have to
/// be padded both before the first trace is saved.
class Replay {
public:
  Replay(std::span<const Finding> findings, const std::vector<Remedy> &remedies,
         const Account &account)
      : findings_(findings), account_(account) {
    std::vector<const Remedy *> effective, all;
    for (const auto &remedy : remedies) {
      alone_.push_back(with({&remedy}));
      all.push_back(&remedy);
      if (alone_.back() > 0)
        effective.push_back(&remedy);
    }
    together_ = with(all);
    more_together_ = together_ > with(effective);
  }

  /// What to say behind the remedy; empty if it saves nothing.
  std::string claim(std::size_t remedy) const {
    if (alone_[remedy] > 0)
      return fmt::format("would save {} of {}", alone_[remedy],
                         counted(account_.window.size(), "trace"));
    if (more_together_)
      return fmt::format("with the other fixes, would save {} of {}", together_,
                         counted(account_.window.size(), "trace"));
    return {};
  }

private:
  std::size_t with(const std::vector<const Remedy *> &remedies) const {
    std::vector<bool> covered(findings_.size());
    for (const auto *remedy : remedies)
      for (const std::size_t index : remedy->covers)
        covered[index] = true;
    return saved(findings_, covered, account_);
  }

  std::span<const Finding> findings_;
  const Account &account_;
  std::vector<std::size_t> alone_;
  std::size_t together_ = 0;
  bool more_together_ = false;
};

} // namespace

std::string message(const Account &account) {
  const auto found = findings(account.window);
  const std::size_t shown = std::min(found.size(), most_causes);
  std::string result =
      fmt::format("{} out of the last {} calls to {} ({}) triggered retracing: {} so far.",
                  account.traces, account.calls, account.function.name,
                  text(account.function.definition), duration(account.nanoseconds));
  for (std::size_t i = 0; i < shown; ++i)
    result += "\n  why   " + sentence(found[i], account.function, account.limit);
  if (shown < found.size())
    result += fmt::format("\n        and {} more cause{}", found.size() - shown,
                          found.size() - shown == 1 ? "" : "s");

  const auto known = remedies({found.data(), shown}, account);
  const Replay replay(found, known, account);
  std::vector<bool> answered(shown);
  for (std::size_t r = 0; r < known.size(); ++r) {
    const std::string claim = replay.claim(r);
    if (claim.empty())
      continue;
    result += "\n  fix   " + known[r].text + "   " + claim;
    for (const std::size_t index : known[r].covers)
      answered[index] = true;
  }
  for (std::size_t i = 0; i < shown; ++i)
    if (!answered[i])
      result += "\n  see   " + advice(found[i], account);
  return result;
}

std::string duration(std::uint64_t nanoseconds) {
  const double ms = static_cast<double>(nanoseconds) / 1e6;
  if (ms < 10)
    return fmt::format("{:.1f} ms", ms);
  return ms < 10'000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

} // namespace tracehost::report
