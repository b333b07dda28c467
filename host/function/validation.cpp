#include "function/function.h"

#include "program/checks.h"
#include "trace/modes.h"

/// Function's side of validation: when a graph is compared with its body, and what follows.

namespace tracehost {

using validate::Verdict;

/// A requested trace may have no data to compare.
bool FunctionCore::validates(const Missed &missed) const {
  return policy_.when != validate::Policy::When::never && missed.counted;
}

Verdict FunctionCore::validate(Body &body, const Specialization &made,
                               const std::vector<at::Tensor> &results,
                               validate::Originals &originals) {
  const validate::BodyRun run{
      *made.program,
      made.outputs,
      results,
      [&](std::size_t i) { return made.signature.input_path(static_cast<std::uint32_t>(i)); },
      [&](const std::function<void()> &f) {
        if (made.runs_without_gil())
          body.session().frontend().blocking(f);
        else
          f();
      },
      body.session().alone(),
      [&] { return body.session().is_exit(); }};
  Verdict verdict = validate::check(originals, run);
  const bool skipped = verdict.kind == Verdict::Kind::skipped;
  (skipped ? counters_->unvalidated : counters_->validated).fetch_add(1, std::memory_order_relaxed);
  if (skipped)
    counters_->unvalidated_because.add(verdict.why);
  return verdict;
}

/// The graph is wrong: calls as this one have none from now on.
void FunctionCore::judge(Body &body, const Signature &called, const Specialization &wrong,
                         Verdict verdict, std::uint64_t hits) {
  negative_cache_.add(called, NegativeCache::Why::wrong);
  counters_->mismatches.fetch_add(1, std::memory_order_relaxed);
  sink_.on(MismatchEvent{counters_, body.session().caller(), text(wrong.signature), verdict.why,
                         verdict.culprit, hits, call_text(called)});
  body.mismatch = std::make_unique<Mismatch>(
      Mismatch{std::move(verdict.why), std::move(verdict.culprit), hits});
}

/// The call runs its body, and the graph beside it, on the inputs as they were before: what the
/// call leaves behind is the body's.
FunctionCore::Outcome FunctionCore::hit_beside(Body &body, Operands &operands,
                                               const SpecializationRef &served) {
  operands.own(); // the body runs
  std::vector<at::Tensor> slots;
  const Signature called = body.session().flatten(slots); // the body may change its arguments
  validate::Originals originals(policy_);
  for (const c10::IValue &input : operands.values())
    originals.met(input.toTensor());
  if (served->program->runs_engine())
    originals.before_backward();
  const auto modes = trace::ThreadModes::now();
  std::optional<BesideResult> ran;
  {
    const validate::Watching watching(originals);
    ran = body.session().run_beside(*served);
  }
  if (!ran) {
    body.execute(*served, operands);
    return Outcome::hit;
  }
  operands.clear();
  Verdict verdict{Verdict::Kind::wrong, std::move(ran->different), {}};
  if (verdict.why.empty()) {
    const trace::ModesOfCall as_called(body.session().frontend(), modes, false);
    try {
      verdict = validate(body, *served, ran->tensors, originals);
    } catch (const CheckFailed &) {
      return Outcome::beside; // its graph would have left the call to another one
    }
  } else
    counters_->validated.fetch_add(1, std::memory_order_relaxed);
  if (verdict.kind == Verdict::Kind::wrong) {
    cache_.remove(served);
    counters_->live.store(cache_.list()->size(), std::memory_order_relaxed);
    judge(body, called, *served, std::move(verdict), served->hits.load());
  }
  return Outcome::beside;
}

} // namespace tracehost
