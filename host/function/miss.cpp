#include "function/function.h"

#include "program/checks.h"
#include "program/numbers.h"
#include "signature/generalize.h"
#include "trace/gradients.h"
#include "trace/modes.h"
#include "trace/tracer.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

/// A call that no graph serves: one thread traces for all that wait for the same Signature.

namespace tracehost {
namespace {

std::uint64_t nanoseconds(std::chrono::steady_clock::duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

bool same_signature(const Signature &a, const Signature &b) { return differences(a, b).empty(); }

/// The dynamic dimensions of `signature`, for the tracer.
trace::DynamicDimensions dynamic_dimensions(const Signature &signature, const Body &body) {
  trace::DynamicDimensions result;
  result.may_specialize = body.may_specialize;
  for (std::uint32_t slot = 0; slot < signature.slots.size(); ++slot) {
    const auto &sizes = signature.slots[slot].sizes;
    result.names.push_back(path(signature, signature.first_node(slot)));
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == kAnySize)
        result.dimensions.push_back({slot, static_cast<std::int32_t>(d)});
  }
  return result;
}

/// `failed`: those that would serve the call, were the numbers others.
trace::Outcomes outcomes_of(const Cache::List &list, std::size_t failed) {
  trace::Outcomes result{{}, failed};
  for (const auto &one : list)
    for (const CheckedNumber &checked : one->signature.checked)
      result.values[checked.where].insert(checked.value);
  return result;
}

/// Whether gradients may be asked of a run; the body may begin them as well.
bool has_gradients(const Signature &signature) {
  const auto wants = [](const TensorMeta &meta) { return meta.requires_grad; };
  return signature.context.grad &&
         (std::any_of(signature.slots.begin(), signature.slots.end(), wants) ||
          std::any_of(signature.captures.begin(), signature.captures.end(),
                      [&](const auto &capture) { return wants(capture.meta); }));
}

} // namespace

FunctionCore::Outcome FunctionCore::miss(Body &body, Operands &operands,
                                         SpecializationRef &served) {
  if (body.session().adapt() && (served = look_up(body, operands)))
    return hit(body, operands, served);
  body.session().missed();
  const Stance stance = body.stance;
  if (stance == Stance::fail_on_miss)
    note_failed_check(body, operands);
  if (stance == Stance::eager_on_miss || stance == Stance::fail_on_miss)
    return Outcome::unserved;
  Missed missed;
  missed.signature = body.session().flatten(missed.slots);
  if (negative_cache_.skips({missed.signature, !body.failed.empty()},
                            stance == Stance::eager_on_error)) {
    pause(body, missed);
    return Outcome::unserved;
  }
  bool traced = false;
  try {
    served = obtain(
        body, missed,
        [&] {
          auto found = look_up(body, operands);
          operands.own(); // other threads run before the hit
          return found;
        },
        traced);
  } catch (...) {
    const bool returned = body.session().has_result() && !body.session().is_exit();
    if (body.abandoned || (returned && body.goes_on(trace::Rejection::trace)))
      note_abandoned(body, missed);
    else
      throw;
    if (!returned) // the body's own exception
      throw;
    body.rejection = body.session().current_error();
    counters_->eager.fetch_add(1, std::memory_order_relaxed);
    return Outcome::went_on;
  }
  if (!served)
    return body.mismatch ? Outcome::went_on : Outcome::unserved;
  return traced ? Outcome::traced : hit(body, operands, served);
}

/// The next calls with such a Signature run the body. Of a trace that was made for more than the
/// call nothing is noted here: the next such call is traced as it is.
void FunctionCore::note_abandoned(const Body &body, const Missed &missed) {
  const bool limit = body.abandoned && body.abandoned->why == trace::Rejection::limit;
  if (limit || !body.failed.empty())
    negative_cache_.abandoned({missed.signature, !body.failed.empty()});
  else if (!body.wider)
    negative_cache_.add(missed.signature, NegativeCache::Why::rejected);
}

/// Runs a graph again whose check has failed: the check fails again, before the graph has changed
/// anything.
void FunctionCore::note_failed_check(Body &body, Operands &operands) {
  if (body.failed.empty() || !body.verify(*body.failed.front(), operands))
    return;
  try {
    body.execute(*body.failed.front(), operands);
  } catch (const CheckFailed &check) {
    body.failed_check = told(check);
  }
  operands.clear();
}

/// The call runs the body, because all checks of the graphs that serve it have failed.
void FunctionCore::pause(const Body &body, const Missed &missed) {
  std::uint64_t hits = 0;
  for (const SpecializationRef &one : body.failed)
    hits += one->hits.load(std::memory_order_relaxed);
  if (!body.failed.empty() && negative_cache_.pauses(missed.signature, hits))
    for (const SpecializationRef &one : body.failed)
      one->paused.store(NegativeCache::kPause, std::memory_order_relaxed);
}

/// Null: the graph was wrong, and `body.mismatch` says how; or another thread's graph was wrong, or
/// its trace was abandoned.
SpecializationRef FunctionCore::obtain(Body &body, const Missed &missed, const Lookup &look_up,
                                       bool &traced) {
  for (;;) {
    std::vector<at::Tensor> slots = missed.slots;
    DynamicCaptures captures;
    Signature target = generalized(body, missed.signature, slots, captures);
    std::uint64_t version = 0;
    Flights::Ref other;
    for (const auto &flight : flights_.under_way(version))
      if (same_signature(flight->signature, target))
        other = flight;
    if (other && other->owner == std::this_thread::get_id())
      throw std::logic_error(
          "recursion into a Function that is being traced for the same signature");
    if (other) {
      body.session().frontend().blocking([&] { flights_.wait(other); });
    } else if (auto flight = flights_.board(target, version)) {
      const auto landing = c10::make_scope_exit([&] { flights_.land(flight); });
      // A flight of another thread may have landed between look-up and boarding.
      if (auto served = look_up())
        return served;
      if (missed.counted)
        body.session().before_trace(missed.signature);
      const auto start = clock_();
      try {
        Made made = trace(body, std::move(target), missed, slots, std::move(captures));
        made.specialization->trace_ns = nanoseconds(clock_() - start);
        if (made.verdict.kind == validate::Verdict::Kind::wrong) {
          counters_->eager.fetch_add(1, std::memory_order_relaxed);
          judge(body, missed.signature, *made.specialization, std::move(made.verdict), 0);
          return nullptr;
        }
        publish(body, missed, made.specialization, std::move(made.notes));
        traced = true;
        return made.specialization;
      } catch (...) {
        const bool returned = body.session().has_result() && !body.session().is_exit();
        const bool went_on = body.abandoned || (returned && body.goes_on(trace::Rejection::trace));
        if (went_on && body.wider)
          negative_cache_.add(flight->signature, NegativeCache::Why::too_wide);
        sink_.on(FailEvent{counters_, body.session().caller(), body.session().current_error(),
                           went_on && returned, false, call_text(missed.signature)});
        throw;
      }
    }
    if (auto served = look_up())
      return served;
    if (missed.counted && (negative_cache_.is_wrong(missed.signature) ||
                           negative_cache_.left({missed.signature, !body.failed.empty()})))
      return nullptr;
  }
}

namespace {

/// Makes each dimension of the captures dynamic whose size differs from the earlier one. `tensors`:
/// those of the captures of `now`, which has the same captures as `before`.
void generalize_captures(const Signature &before, const Signature &now,
                         const std::vector<at::Tensor> &tensors,
                         std::vector<trace::DynamicDimensions::Capture> &captures) {
  for (std::size_t i = 0; i < std::min(before.captures.size(), tensors.size()); ++i) {
    const auto &then = before.captures[i].meta.sizes;
    if (!tensors[i].defined() || before.captures[i].held || before.captures[i].same_as_slot >= 0 ||
        then.size() != static_cast<std::size_t>(tensors[i].dim()))
      continue;
    auto known = std::find_if(captures.begin(), captures.end(), [&](const auto &capture) {
      return capture.tensor.is_same(tensors[i]);
    });
    for (std::size_t d = 0; d < then.size(); ++d) {
      if (then[d] == now.captures[i].meta.sizes[d])
        continue;
      if (known == captures.end())
        known = captures.insert(known, {tensors[i], now.captures[i].path, {}});
      const auto dimension = static_cast<std::int32_t>(d);
      auto &dimensions = known->dimensions;
      if (std::find(dimensions.begin(), dimensions.end(), dimension) == dimensions.end())
        dimensions.push_back(dimension);
    }
  }
}

} // namespace

/// tf.function's rule for reduce_retracing (docs/rules/signature.md). Joins the call's Signature
/// with earlier ones, oldest first. An earlier one that differs only in sizes and user types makes
/// those sizes dynamic, and replaces those types by common supertypes. Sizes of captures become
/// dynamic in the same way (`captures`).
Signature FunctionCore::generalized(Body &body, const Signature &signature,
                                    std::vector<at::Tensor> &slots, DynamicCaptures &captures) {
  Signature result = signature;
  if (!counters_->identity.reduces || counters_->identity.declared)
    return result;
  for (const auto &earlier : cache_.list()->by_age()) {
    Signature joined = result, before = earlier->signature;
    if (!body.session().join(before, joined))
      continue;
    Signature now = joined;
    body.session().current_guards(*earlier, now);
    if (!only_sizes(differences(before, now)))
      continue;
    result = std::move(joined);
    generalize(result, before);
    generalize_captures(before, now, body.session().captures(*earlier), captures);
  }
  body.wider =
      !captures.empty() || is_narrower(signature, result) || types_are_narrower(signature, result);
  if (body.wider && negative_cache_.is_too_wide(result)) {
    body.wider = false;
    captures.clear();
    result = signature;
  }
  body.session().adopt(result, slots);
  return result;
}

FunctionCore::Made FunctionCore::trace(Body &body, Signature signature, const Missed &missed,
                                       const std::vector<at::Tensor> &slots,
                                       DynamicCaptures captures) {
  auto made = std::make_shared<Specialization>();
  BodyResult result;
  std::optional<validate::Originals> originals;
  if (validates(missed))
    originals.emplace(policy_);
  const trace::Outcomes outcomes = outcomes_of(*cache_.list(), body.failed.size());
  const auto modes = trace::ThreadModes::now();
  auto dynamic = dynamic_dimensions(signature, body);
  dynamic.captures = std::move(captures);
  auto traced = trace::trace(
      slots, dynamic, body.session().frontend(),
      [&] {
        result = body.session().run();
        auto recorded = result.tensors;
        for (at::Tensor &t : result.tensors)
          t = trace::owner_of_grad(t); // validation compares their .grad, too
        return recorded;
      },
      originals ? &*originals : nullptr, &outcomes);
  for (const trace::SpecializedDimension &p : traced.specialized) {
    const auto [slot, dimension] = p.dimension;
    if (slot >= slots.size()) { // a capture has the sizes of the trace unless they are dynamic
      made->specialized.push_back(
          {traced.captures[slot - slots.size()].path, dimension, p.why, p.where});
      continue;
    }
    made->specialized.push_back(
        {path(signature, signature.first_node(slot)), dimension, p.why, p.where});
    specialize(signature, slot, static_cast<std::size_t>(dimension), slots[slot].size(dimension));
  }
  signature.conditions = std::move(traced.conditions);
  signature.grads = traced.grads;
  signature.checked = std::move(traced.checked);
  signature.reads_strides = traced.reads_strides;
  signature.reads_leaf = traced.reads_leaf;
  made->front_end = body.session().finish(signature, traced);
  for (const auto &[input, dimension] : traced.dynamic_captures)
    signature.captures[input - slots.size()].meta.make_dynamic(static_cast<std::size_t>(dimension));
  made->signature = std::move(signature);
  made->outputs = std::move(result.outputs);
  ProgramOptions options{.merges = !has_gradients(made->signature),
                         .changes = traced.changes,
                         .arguments = slots.size()};
  optimize(made->signature, options);
  made->program = std::make_unique<Program>(traced.graph, counters_->identity.name,
                                            result.tensors.size(), std::move(options));
  made->first_call = body.session().caller();
  made->raises_early = !traced.raises_late;
  Made all{made, std::move(traced.notes), {}};
  const bool serves_later = !made->front_end || made->front_end->once.empty();
  if (originals && serves_later) {
    const trace::ModesOfCall as_called(body.session().frontend(), modes,
                                       false); // the body may have left others
    try {
      all.verdict = validate(body, *made, result.tensors, *originals);
    } catch (const CheckFailed &e) {
      all.verdict = {validate::Verdict::Kind::wrong, e.what(), {}};
    }
  }
  if (all.verdict.kind == validate::Verdict::Kind::skipped)
    all.notes.push_back("not validated: " + all.verdict.why);
  return all;
}

} // namespace tracehost
