#include "function/function.h"

#include "program/checks.h"
#include "program/numbers.h"
#include "program/ops.h"

#include <algorithm>

/// Calls that a graph serves, and requests. A call that no graph serves is in miss.cpp.

namespace tracehost {
namespace {

bool rebinds(const Specialization &served) { return served.front_end && served.front_end->rebinds; }

} // namespace

FunctionCore::FunctionCore(Identity identity, std::size_t limit, Sink &sink,
                           validate::Policy policy, Clock clock)
    : counters_(std::make_shared<Counters>()), cache_(limit), policy_(policy), clock_(clock),
      sink_(sink) {
  counters_->identity = std::move(identity);
  sink_.created(counters_);
}

/// A check of the graph may fail, or the graph may raise before it has changed anything. Then the
/// graph for another value may serve, or one more is traced, whose body raises itself. The value
/// that the check has found chooses the next graph (program/checks.h). So the ops before a check
/// run at most twice, however many graphs there are for other values of its number.
FunctionCore::Outcome FunctionCore::call(Body &body, Operands &operands,
                                         SpecializationRef &served) {
  bool tried = false; // a graph, whose check has failed
  for (;;) {
    try {
      served = look_up(body, operands);
      if (served) [[likely]] {
        if (served->paused.load(std::memory_order_relaxed) && !tried && runs_body(body, *served))
            [[unlikely]] {
          served.reset();
          operands.clear();
          return Outcome::unserved;
        }
        const Outcome outcome = hit(body, operands, served);
        if (tried) [[unlikely]]
          end_pause(body, *served);
        return outcome;
      }
      if (!tried && !body.failed.empty() && runs_body(body, *body.failed.front()))
        return Outcome::unserved; // by checks on slots
      return miss(body, operands, served);
    } catch (const CheckFailed &check) { // of the one that look_up() has found now
      body.found = check.found();
    } catch (const Raised &) { // before the body's stores, which eager has made by then
      if (!served || !served->raises_early || !rebinds(*served))
        throw;
    } catch (const LeavesNumbers &) { // Python continues with an int past 64 bits
      if (!served || !served->raises_early)
        throw;
    }
    Program::take_failed_at();
    body.failed.push_back(served);
    operands.clear();
    tried = true;
  }
}

/// Whether the call does not try `one`, which it fits, and other graphs for other values.
bool FunctionCore::runs_body(const Body &body, Specialization &one) {
  return body.stance != Stance::fail_on_miss && one.is_paused();
}

/// A graph has served a call for which others had failed. Those that were left out had been paused
/// with them.
void FunctionCore::end_pause(const Body &body, Specialization &served) const {
  served.paused.store(0, std::memory_order_relaxed);
  for (const SpecializationRef &one : body.failed)
    one->paused.store(0, std::memory_order_relaxed);
  if (!body.found)
    return;
  const auto list = cache_.list();
  for (const SpecializationRef &one : *list)
    if (one->paused.load(std::memory_order_relaxed) &&
        one->program->checks().serves(*body.found) == Checks::Serves::no)
      one->paused.store(0, std::memory_order_relaxed);
}

FunctionCore::Outcome FunctionCore::hit(Body &body, Operands &operands,
                                        const SpecializationRef &served) {
  counters_->hits.fetch_add(1, std::memory_order_relaxed);
  const auto before = served->hits.fetch_add(1, std::memory_order_relaxed);
  if (policy_.every && (before + 1) % policy_.every == 0) [[unlikely]]
    return hit_beside(body, operands, served);
  const auto ended = [&](bool failed) {
    counters_->hits.fetch_sub(1, std::memory_order_relaxed);
    served->hits.fetch_sub(1, std::memory_order_relaxed);
    counters_->failed.fetch_add(failed, std::memory_order_relaxed);
  };
  try {
    body.execute(*served, operands);
  } catch (const CheckFailed &) { // another graph serves, or is traced
    ended(false);
    throw;
  } catch (const Raised &) {
    ended(!served->raises_early);
    throw;
  } catch (const OpFailed &op) {
    const bool runs = body.runs_instead(op.error);
    ended(!runs);
    if (!runs)
      std::rethrow_exception(op.error);
    return Outcome::undone;
  } catch (...) {
    ended(true);
    throw;
  }
  return Outcome::hit;
}

namespace {

/// Whether `one` fits the call, and its checks at the start of the graph hold. If the checks alone
/// do not, it has failed.
bool serves(Body &body, Operands &operands, Specialization &one,
            c10::SmallVector<const Specialization *, 2> &failed) {
  if (body.has_failed(one) || !body.verify(one, operands))
    return false;
  if (one.program->checks_hold(operands.values())) [[likely]]
    return true;
  failed.push_back(&one);
  operands.clear();
  return false;
}

} // namespace

SpecializationRef FunctionCore::look_up(Body &body, Operands &operands) {
  const auto list = cache_.list();
  const auto stamp = calls_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t last = last_.load(std::memory_order_relaxed);
  c10::SmallVector<const Specialization *, 2> failed;
  const auto asked = [&](Specialization &one) { return serves(body, operands, one, failed); };
  const std::size_t found = body.found ? list->find(*body.found, asked) : list->find(last, asked);
  if (found == list->size() && body.found) [[unlikely]] // those left out would fail
    for (const auto &one : *list)
      if (one->program->checks().serves(*body.found) == Checks::Serves::no &&
          serves(body, operands, *one, failed)) {
        failed.push_back(one.get());
        operands.clear();
      }
  if (!failed.empty()) [[unlikely]]
    for (const auto &one : *list)
      if (std::find(failed.begin(), failed.end(), one.get()) != failed.end())
        body.failed.push_back(one);
  if (found == list->size()) [[unlikely]]
    return nullptr;
  if (found != last)
    last_.store(found, std::memory_order_relaxed);
  (*list)[found]->last_used.store(stamp, std::memory_order_relaxed);
  return (*list)[found];
}

SpecializationRef FunctionCore::look_up(Body &body, const Signature &signature) {
  const auto list = cache_.list();
  for (const auto &candidate : *list) {
    Signature now = signature;
    body.session().current_guards(*candidate, now);
    if (differences(candidate->signature, now).empty())
      return candidate;
  }
  return nullptr;
}

SpecializationRef FunctionCore::request(Body &body) {
  Missed missed;
  body.session().adapt();
  missed.signature = body.session().flatten(missed.slots);
  missed.counted = false;
  if (negative_cache_.is_wrong(missed.signature))
    body.session().frontend().reject(
        trace::Rejection::trace, "a graph for this signature did not do what the body did, as a "
                                 "TraceWarning said");
  const auto look = [&] { return look_up(body, missed.signature); };
  if (auto found = look())
    return found;
  bool traced = false;
  return obtain(body, missed, look, traced);
}

FunctionCore::Explanation FunctionCore::explain(Body &body) {
  Explanation result;
  std::vector<at::Tensor> slots;
  body.session().adapt();
  result.signature = body.session().flatten(slots);
  if ((result.served = look_up(body, result.signature)))
    return result;
  result.differences = nearest(body, result.signature, result.nearest).differences;
  result.skips = negative_cache_.left({result.signature});
  return result;
}

void FunctionCore::clear() {
  const auto dropped = cache_.clear();
  negative_cache_.clear();
  counters_->live.store(0, std::memory_order_relaxed);
  counters_->cleared.fetch_add(1, std::memory_order_relaxed);
}

} // namespace tracehost
