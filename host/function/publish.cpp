#include "function/function.h"

#include "signature/generalize.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

/// A new Specialization enters the cache, and its event says why the call was not served.

namespace tracehost {
namespace {

/// Of two Signatures that differ in nothing else: the first value that does.
std::vector<Difference> checked_differently(const Signature &before, const Signature &after,
                                            TraceSession &session) {
  for (std::size_t i = 0; i < std::min(before.checked.size(), after.checked.size()); ++i)
    if (const CheckedNumber &a = before.checked[i], &b = after.checked[i]; a != b)
      return {{Cause::read, session.expression(b.where), -1, a.value, b.value, -1, b.where}};
  return {};
}

/// The paths of the objects that differ and that others of their classes may replace.
std::vector<std::string> exchangeable(const std::vector<Difference> &differences,
                                      const Signature &signature, TraceSession &session) {
  std::vector<std::string> result;
  for (const Difference &difference : differences)
    for (std::size_t i = 0; difference.cause == Cause::object && i < signature.nodes.size(); ++i)
      if (signature.nodes[i].kind == Kind::atom && path(signature, i) == difference.path &&
          session.is_exchangeable(i))
        result.push_back(difference.path);
  return result;
}

/// Whether the surroundings alone differ. Other arguments are another Signature, even if the two
/// look the same as text: long strings, objects.
bool in_surroundings(const std::vector<Difference> &differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference &d) {
    return d.cause == Cause::guarded || d.cause == Cause::capture;
  });
}

/// Surroundings as the body of `made` found them: it may have changed them since. Two slots may
/// have one path, so these are compared where all paths are the same.
void as_found(const Signature &made, Signature &now) {
  if (std::ranges::equal(made.guarded, now.guarded, {}, &GuardedSlot::path, &GuardedSlot::path))
    for (std::size_t i = 0; i < now.guarded.size(); ++i)
      now.guarded[i].node = made.guarded[i].node;
  std::unordered_map<std::string_view, const TensorMeta *> found;
  for (const CaptureSpec &capture : made.captures)
    found.emplace(capture.path, &capture.meta);
  for (CaptureSpec &capture : now.captures)
    if (const auto at = found.find(capture.path); at != found.end() && !at->second->dynamic)
      capture.meta = *at->second;
}

} // namespace

/// The arguments of each are compared first. Surroundings are compared of those alone that can be
/// the nearest, paths and texts of them made of fewer still: neither grows with the cache.
Nearest FunctionCore::nearest(Body &body, const Signature &signature, SpecializationRef &found,
                              std::vector<std::uint64_t> *alike, const Signature *made) {
  const auto list = cache_.list()->by_age();
  struct Candidate {
    int least; ///< its distance, by arguments
    std::size_t index;
    std::vector<Difference> differing;
  };
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto differing = differences(list[i]->signature, signature);
    candidates.push_back({distance(differing), i, std::move(differing)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate &a, const Candidate &b) {
    return a.least != b.least ? a.least < b.least : a.index > b.index;
  });
  const auto complete = [&](std::size_t i) {
    Signature now = signature;
    body.session().current_guards(*list[i], now);
    if (made)
      as_found(*made, now);
    return differences(list[i]->signature, now);
  };
  Nearest result;
  for (auto &[least, i, differing] : candidates) {
    const bool declarable = alike && only_declarable(differing);
    if (!declarable && !result.may_be(i, least))
      continue;
    const auto surroundings = body.session().surroundings(*list[i]);
    if (surroundings == TraceSession::Surroundings::changed) {
      if (result.may_be(i, least + least_distance()))
        result.consider(i, complete(i));
      continue;
    }
    if (surroundings == TraceSession::Surroundings::unknown)
      differing = complete(i);
    if (alike && only_declarable(differing))
      alike->push_back(list[i]->number);
    result.consider(i, std::move(differing));
  }
  if (!list.empty())
    found = list[result.index];
  return result;
}

/// Counts the trace, and says in its event if the next calls run the body.
void FunctionCore::back_off(Body &body, const Missed &missed, TraceEvent &event) {
  body.skips = negative_cache_.traced({missed.signature, !body.failed.empty()}, counters_->hits);
  if (!body.skips)
    return;
  body.differing = event.differences;
  event.notes.push_back(fmt::format("the last {} traces for such arguments served no later call: "
                                    "the next {} such calls run as plain Python",
                                    NegativeCache::kTraces, body.skips));
}

void FunctionCore::publish(Body &body, const Missed &missed, SpecializationRef made,
                           std::vector<std::string> notes) {
  TraceEvent event;
  event.function = counters_;
  event.call = made->first_call;
  event.signature = text(made->signature);
  const bool as_made = is_narrower(missed.signature, made->signature) &&
                       !types_are_narrower(missed.signature, made->signature);
  event.lock = call_text(as_made ? made->signature : missed.signature);
  event.full = &made->signature;
  event.request = Sketch(missed.signature);
  event.specialized = made->specialized;
  event.notes = std::move(notes);
  event.nanoseconds = made->trace_ns;
  event.ops = static_cast<std::uint32_t>(made->program->ops());
  event.was_evicted = cache_.was_evicted(event.signature);
  event.counted = missed.counted;
  SpecializationRef before;
  event.differences =
      nearest(body, missed.signature, before, &event.alike, &made->signature).differences;
  event.first = !before;
  event.exchangeable = exchangeable(event.differences, missed.signature, body.session());
  if (before && event.differences.empty())
    event.differences = checked_differently(before->signature, made->signature, body.session());

  if (made->front_end)
    event.once = made->front_end->once;
  const bool serves_once = !event.once.empty();
  const bool changes = body.failed.empty() && in_surroundings(event.differences);
  if (missed.counted && !event.was_evicted && (serves_once || changes))
    back_off(body, missed, event);

  made->number = counters_->traces.fetch_add(1, std::memory_order_relaxed) + 1;
  made->bytes = estimated_bytes(*made);
  event.number = made->number;
  counters_->trace_ns.fetch_add(made->trace_ns, std::memory_order_relaxed);
  if (serves_once) {
    event.notes.push_back(event.once);
    sink_.on(event);
    return;
  }
  for (const auto &other : *cache_.list()) {
    if (types_are_narrower(made->signature, other->signature))
      made->above.push_back(other->number);
    else if (types_are_narrower(other->signature, made->signature))
      made->below.push_back(other->number);
  }
  made->last_used.store(calls_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  const auto evicted = cache_.publish(made);
  const auto list = cache_.list();
  last_.store(static_cast<std::size_t>(std::find(list->begin(), list->end(), made) - list->begin()),
              std::memory_order_relaxed);
  counters_->live.store(list->size(), std::memory_order_relaxed);
  counters_->evicted.fetch_add(evicted.size(), std::memory_order_relaxed);
  sink_.on(event);
  for (const auto &s : evicted)
    sink_.on(EvictEvent{counters_, event.call, text(s->signature), s->hits.load(), cache_.limit(),
                        !s->signature.alive()});
}

} // namespace tracehost
