#include "report/message.h"

#include "report/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace tracehost::report {
namespace {

constexpr std::size_t most_causes = 3;

/// Which remedies to show, with what each of them saves, alone and with the others: a batch's
/// images and its labels may have to be padded both before the first trace is saved.
///
/// Changes to the calls are shown with reduce_retracing, or with padding where that does not help.
/// A declared signature is shown in place of padding where it saves more than each of them.
class Choice {
public:
  Choice(std::span<const Finding> findings, const std::vector<Remedy> &remedies,
         const Account &account)
      : findings_(findings), account_(account) {
    plan(remedies);
    for (const Remedy *remedy : plan_)
      alone_.push_back(saves({remedy}));
    std::vector<const Remedy *> effective;
    for (std::size_t i = 0; i < plan_.size(); ++i)
      if (alone_[i] > 0)
        effective.push_back(plan_[i]);
    together_ = saves(plan_);
    more_together_ = together_ > saves(effective);
    declare(remedies);
  }

  /// A line for each, in order, and what it covers.
  std::vector<std::pair<const Remedy *, std::string>> shown() const {
    std::vector<std::pair<const Remedy *, std::string>> result;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (declared_ && i == declared_at_)
        result.emplace_back(declared_, claim(declares_));
      if (declared_ && plan_[i]->kind == Remedy::Kind::pad)
        continue;
      if (alone_[i] > 0)
        result.emplace_back(plan_[i], claim(alone_[i]));
      else if (more_together_ && !(declared_ && declares_ >= together_))
        result.emplace_back(plan_[i], "with the other fixes, " + claim(together_));
    }
    if (declared_ && declared_at_ >= plan_.size())
      result.emplace_back(declared_, claim(declares_));
    return result;
  }

private:
  using Plan = std::vector<const Remedy *>;

  static Plan of_kinds(const std::vector<Remedy> &remedies,
                       std::initializer_list<Remedy::Kind> kinds) {
    Plan result;
    for (const Remedy &remedy : remedies)
      if (std::find(kinds.begin(), kinds.end(), remedy.kind) != kinds.end())
        result.push_back(&remedy);
    return result;
  }

  void plan(const std::vector<Remedy> &remedies) {
    using Kind = Remedy::Kind;
    plan_ = of_kinds(remedies, {Kind::reduce, Kind::change});
    const Plan changes = of_kinds(remedies, {Kind::change});
    if (plan_.size() == changes.size() || saves(plan_) <= saves(changes))
      plan_ = of_kinds(remedies, {Kind::pad, Kind::change});
  }

  void declare(const std::vector<Remedy> &remedies) {
    const Plan found = of_kinds(remedies, {Remedy::Kind::declare});
    if (found.empty())
      return;
    std::size_t best = 0;
    for (std::size_t i = 0; i < plan_.size(); ++i)
      if (plan_[i]->kind != Remedy::Kind::pad)
        best = std::max(best, alone_[i]);
    declares_ =
        saved_by_declaring(account_.known, account_.window().size(), found.front()->declared);
    if (declares_ <= best)
      return;
    declared_ = found.front();
    declared_at_ = !plan_.empty() && plan_.front()->kind == Remedy::Kind::reduce ? 1 : 0;
  }

  std::size_t saves(const Plan &remedies) const {
    std::vector<bool> covered(findings_.size());
    std::set<std::string> tensors;
    bool reduces = false;
    for (const Remedy *remedy : remedies) {
      reduces |= remedy->kind == Remedy::Kind::reduce;
      for (const std::size_t index : remedy->covers) {
        covered[index] = true;
        if (is_number(findings_[index]))
          tensors.insert(findings_[index].paths.begin(), findings_[index].paths.end());
      }
    }
    return reduces ? saved_by_reducing(account_.known, account_.window().size(), tensors)
                   : saved(findings_, covered, account_);
  }

  std::string claim(std::size_t count) const {
    return fmt::format("would save {} of {}", count, counted(account_.window().size(), "trace"));
  }

  std::span<const Finding> findings_;
  const Account &account_;
  Plan plan_;
  std::vector<std::size_t> alone_;
  std::size_t together_ = 0;
  bool more_together_ = false;
  const Remedy *declared_ = nullptr; ///< where it is shown
  std::size_t declares_ = 0, declared_at_ = 0;
};

/// A line for each size that `finding` names and the body needs as a number.
std::string specialized_lines(const Finding &finding, const Account &account) {
  std::set<std::string> lines;
  for (const SpecializedSize &one : specialized(finding, account))
    lines.insert("\n  why   " + sentence(one));
  return fmt::format("{}", fmt::join(lines, ""));
}

} // namespace

std::string causes_and_fixes(const Account &account) {
  const auto found = findings(account.window());
  const std::size_t shown = std::min(found.size(), most_causes);
  std::string result;
  for (std::size_t i = 0; i < shown; ++i)
    result += "\n  why   " + sentence(found[i], account.function, account.limit) +
              specialized_lines(found[i], account);
  if (shown < found.size())
    result += "\n        and " + counted(found.size() - shown, "more cause");

  const auto known = remedies({found.data(), shown}, account);
  const Choice choice(found, known, account);
  std::vector<bool> answered(shown);
  for (const auto &[remedy, claim] : choice.shown()) {
    result += "\n  fix   " + remedy->text + "   " + claim;
    for (const std::size_t index : remedy->covers)
      answered[index] = true;
  }
  for (std::size_t i = 0; i < shown; ++i)
    if (!answered[i])
      result += "\n  see   " + advice(found[i], account);
  return result;
}

std::string message(const Account &account) {
  return fmt::format("{} out of the last {} calls to {} ({}) triggered retracing: {} so far.",
                     account.traces, account.calls, account.function.name,
                     text(account.function.definition), duration(account.nanoseconds)) +
         causes_and_fixes(account);
}

std::string eviction(const Account &account, const std::string &signature) {
  constexpr std::size_t most = 100;
  const std::string shown =
      signature.size() <= most ? signature : signature.substr(0, most - 3) + "...";
  return fmt::format("{} ({}) has had more signatures than limit={} keeps, {} of traces so far: "
                     "{} was evicted.",
                     account.function.name, text(account.function.definition), account.limit,
                     duration(account.nanoseconds), shown) +
         causes_and_fixes(account) +
         fmt::format("\n  see   @tracehost.function(limit={}), if all of them are called again",
                     std::bit_ceil(account.limit + 1));
}

std::string duration(std::uint64_t nanoseconds) {
  const double ms = static_cast<double>(nanoseconds) / 1e6;
  if (ms < 10)
    return fmt::format("{:.1f} ms", ms);
  return ms < 10'000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

} // namespace tracehost::report
