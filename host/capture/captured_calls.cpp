#include "capture/eligible.h"
#include "capture/entry.h"
#include "capture/side_stream.h"
#include "capture/writes.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <mutex>
#include <utility>

/// A call that is captured, and one that is replayed.

namespace tracehost::capture {
namespace {

std::string first_line(const std::exception &error) {
  const auto *c10_error = dynamic_cast<const c10::Error *>(&error);
  const std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

bool is_of_memory(const std::exception &error) {
  return dynamic_cast<const c10::OutOfMemoryError *>(&error) != nullptr;
}

} // namespace

bool Entry::make_step(Values inputs) {
  try {
    step_ = std::make_unique<TrainingStep>(subject_.graph, inputs, subject_.draws,
                                           subject_.complete_places);
  } catch (const tape::NoTape &none) {
    reject(none.why);
    return false;
  } catch (const std::exception &error) {
    reject(first_line(error));
    return false;
  }
  if (const auto reason = not_capturable(step_->graph(), step_->with_gradients(inputs), where_)) {
    reject(reason->what);
    return false;
  }
  launches_ = count_launches(*step_->graph().block());
  for (const std::int64_t writes : step_->writes_to_gradients())
    inputs_.add(writes);
  const std::vector<bool> written = written_inputs(step_->graph());
  for (std::size_t i = 0; i < written.size(); ++i)
    if (written[i])
      inputs_.set_written(i);
  return true;
}

Failure Entry::failure_of_op() const {
  return subject_.take_failure ? subject_.take_failure() : Failure{};
}

/// The interpreter throws an error of its own in the place of an op's.
Entry::Failed Entry::failure(const std::exception &error) const {
  const Failure of_op = failure_of_op();
  if (!of_op.error)
    return {first_line(error), is_of_memory(error)};
  try {
    std::rethrow_exception(of_op.error);
  } catch (const std::exception &thrown) {
    const std::string place = of_op.place.empty() ? "" : " at " + of_op.place;
    return {first_line(thrown) + place, is_of_memory(thrown)};
  } catch (...) {
    return {first_line(error), false};
  }
}

/// Captures the graph. It runs, but the device executes nothing.
bool Entry::record(c10::Stream caller) {
  bool begun = false;
  static_cast<void>(failure_of_op()); // of an earlier run
  try {
    const c10::Stream side = device_.side_stream(index_);
    device_.wait(side, caller);
    jit::Stack stack = inputs_.stack();
    {
      const OnStream there(device_, side, caller);
      begun = true;
      pool_->begin(side);
      if (step_)
        step_->run(stack);
      else
        subject_.interpret(stack, /*captured=*/true);
      captured_ = pool_->end();
      begun = false;
    }
    const jit::Graph &graph = step_ ? step_->graph() : subject_.graph;
    if (const auto why_not =
            results_.bind(stack, inputs_, Results::storages_of_constants(*graph.block()))) {
      reject(*why_not);
      return false;
    }
    return true;
  } catch (const std::exception &error) {
    const Failed failed = failure(error);
    if (begun)
      abandon();
    if (failed.lacks_memory && !std::exchange(has_freed_, true)) {
      release({}); // the next call tries again
      device_.free_unused();
    } else {
      reject("its capture failed: " + failed.text);
    }
    return false;
  } catch (...) {
    if (begun)
      abandon();
    throw;
  }
}

void Entry::abandon() noexcept {
  pool_->abandon();
  subject_.pools->forget(pool_);
}

/// Captures in the place of a call. The call's results are those of a plain run, which the first
/// replay is compared with.
bool Entry::capture(jit::Stack &stack, Values given) {
  const SideStreamUse use;
  if (!use)
    return false;
  release("its parameters have moved");
  home_ = last_ = device_.current(index_);
  pool_ = subject_.pools->of(device_, index_);
  const std::shared_ptr<Pool> pool = pool_; // until its lock is released
  const std::unique_lock mine(*pool, std::try_to_lock);
  if (!mine)
    return false;
  std::optional<Effects> before;
  try {
    const Unbreaking allocates(device_);
    inputs_.bind(given);
    inputs_.copy_in(given); // a device that runs what it captures sees values of a call
    before.emplace(inputs_, given, subject_.draws);
  } catch (const std::exception &error) {
    reject(first_line(error));
    return false;
  }
  return record(home_) && compare(stack, given, *before);
}

bool Entry::compare(jit::Stack &stack, Values now, const Effects &before) {
  const Unbreaking waits(device_);
  const std::vector<c10::IValue> given = now.vec(); // the run consumes the stack
  jit::Stack replayed;
  std::optional<Effects> after;
  try {
    bool started = false;
    replay_for(given, replayed, started);
    after.emplace(before.again(inputs_, given));
  } catch (const std::exception &error) {
    reject("its first replay failed: " + first_line(error));
  }
  before.undo(given);
  if (!after)
    return false;
  try {
    subject_.interpret(stack, /*captured=*/false);
  } catch (...) {
    reject("an op raised in the call that was compared");
    throw;
  }
  jit::Stack plain = jit::last(stack, subject_.graph.outputs().size()).vec();
  if (step_)
    step_->append_gradients(given, plain);
  auto differs = difference_of_results(replayed, plain);
  if (!differs)
    differs = after->difference(before.again(inputs_, given));
  if (differs)
    reject("the first replay of its capture differs in " + *differs);
  else
    accept();
  return true;
}

void Entry::accept() {
  state_ = State::ready;
  counted_ = true;
  news_.push_back({GraphNews::What::captured, {}, launches_, inputs_.bytes() + pool_->growth()});
}

/// `started`: the device has begun, and the call can't be served otherwise any more. Requires: the
/// lock of the pool.
void Entry::replay_for(Values given, jit::Stack &results, bool &started) {
  const auto memory = results_.allocate();
  const c10::Stream caller = device_.current(index_);
  if (pool_->last && caller != *pool_->last)
    device_.wait(caller, *pool_->last);
  inputs_.copy_in(given);
  device_.replay(*captured_, caller);
  started = true;
  last_ = caller;
  pool_->last = caller;
  inputs_.copy_back(given);
  results_.append(results, memory, given);
}

bool Entry::replay(jit::Stack &stack, Values given) {
  const std::shared_ptr<Pool> pool = pool_; // until its lock is released
  const std::unique_lock mine(*pool, std::try_to_lock);
  if (!mine)
    return false;
  jit::Stack results;
  bool started = false;
  try {
    replay_for(given, results, started);
  } catch (const std::exception &error) {
    if (!started && is_of_memory(error)) // of the results; the capture is unharmed
      return false;
    reject("a replay failed: " + first_line(error));
    if (started)
      throw;
    return false;
  }
  inputs_.count_writes(given);
  if (step_)
    step_->set_gradients(given, results);
  jit::drop(stack, subject_.graph.inputs().size());
  stack.insert(stack.end(), std::make_move_iterator(results.begin()),
               std::make_move_iterator(results.end()));
  return true;
}

} // namespace tracehost::capture
