#include "capture/entry.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <unistd.h>

#include <utility>

namespace tracehost::capture {
namespace {

constexpr int kWarmRuns = 2;
constexpr std::uint64_t kCallsOfMoves = 20; ///< in which there may be three captures again

/// One capture at a time in the process.
constinit std::atomic_flag captures_now;

class OnlyCapture {
public:
  OnlyCapture() : mine_(!captures_now.test_and_set(std::memory_order_acquire)) {}
  ~OnlyCapture() {
    if (mine_)
      captures_now.clear(std::memory_order_release);
  }
  OnlyCapture(const OnlyCapture &) = delete;
  OnlyCapture &operator=(const OnlyCapture &) = delete;
  explicit operator bool() const { return mine_; }

private:
  const bool mine_;
};

/// Another stream is this thread's current one.
class OnStream {
public:
  OnStream(GraphDevice &device, c10::Stream stream, c10::Stream before)
      : device_(device), before_(before) {
    device_.set_current(stream);
  }
  ~OnStream() { device_.set_current(before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

private:
  GraphDevice &device_;
  const c10::Stream before_;
};

std::string first_line(const std::exception &error) {
  const auto *c10_error = dynamic_cast<const c10::Error *>(&error);
  const std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

} // namespace

Entry::Entry(const Subject &subject, GraphDevice &device, Key key, c10::Device where)
    : subject_(subject), device_(device), key_(std::move(key)), index_(where.index()),
      inputs_(subject.graph.inputs().size(), subject.arguments, subject.written),
      home_(device.current(index_)), last_(home_) {}

Entry::~Entry() { release(); }

bool Entry::run(jit::Stack &stack) {
  ++calls_;
  const auto given = jit::last(stack, inputs_.size());
  if (state_ == State::not_captured || !inputs_.are_apart(given))
    return false;
  if (state_ == State::ready && is_stale(given))
    state_ = State::capturing;
  switch (state_) {
  case State::warming:
    warm(stack);
    return true;
  case State::capturing:
    return capture(stack);
  case State::ready:
    return replay(stack);
  case State::not_captured:
    break;
  }
  return false;
}

/// The call itself, on the stream of the capture: libraries make handles and workspaces there.
void Entry::warm(jit::Stack &stack) {
  const std::vector<c10::IValue> given = jit::last(stack, inputs_.size()).vec();
  inputs_.begin_warm_run(given);
  const c10::Stream caller = device_.current(index_), side = device_.side_stream(index_);
  struct Joined {
    GraphDevice &device;
    const c10::Stream caller, side;
    ~Joined() { device.wait(caller, side); }
  };
  device_.wait(side, caller);
  {
    const Joined joined{device_, caller, side};
    const OnStream there(device_, side, caller);
    subject_.interpret(stack, /*captured=*/false);
  }
  for (const c10::IValue &output : jit::last(stack, subject_.graph.outputs().size()))
    if (output.isTensor() && output.toTensor().defined())
      device_.used_on(output.toTensor(), caller);
  inputs_.end_warm_run(given);
  if (++warm_runs_ == kWarmRuns)
    state_ = State::capturing;
}

bool Entry::is_stale(c10::ArrayRef<c10::IValue> given) {
  if (inputs_.are_in_place(given)) [[likely]]
    return false;
  std::uint64_t &oldest = moved_at_[moves_ % moved_at_.size()];
  if (moves_ >= moved_at_.size() && calls_ - oldest < kCallsOfMoves) {
    reject("its parameters move");
    return false;
  }
  oldest = calls_;
  ++moves_;
  inputs_.copy_what_moved(given);
  return true;
}

/// Captures the graph. It runs, but the device executes nothing.
bool Entry::record(c10::Stream caller) {
  bool begun = false;
  try {
    const c10::Stream side = device_.side_stream(index_);
    pool_ = device_.new_pool();
    has_pool_ = true;
    jit::Stack stack = inputs_.stack();
    {
      const OnStream there(device_, side, caller);
      begun = true;
      device_.begin(side, pool_);
      subject_.interpret(stack, /*captured=*/true);
      captured_ = device_.end();
      begun = false;
    }
    if (const auto why_not = results_.bind(stack, inputs_, subject_.constants)) {
      reject(*why_not);
      return false;
    }
    return true;
  } catch (const std::exception &error) {
    const std::string why = subject_.explain ? subject_.explain(error) : first_line(error);
    if (begun)
      device_.abandon();
    reject("its capture failed: " + why);
    return false;
  } catch (...) {
    if (begun)
      device_.abandon();
    throw;
  }
}

/// Captures in the place of a call. The call's results are those of a plain run, which the first
/// replay is compared with.
bool Entry::capture(jit::Stack &stack) {
  const OnlyCapture only;
  if (!only)
    return false;
  release();
  const auto given = jit::last(stack, inputs_.size());
  home_ = last_ = device_.current(index_);
  std::optional<Effects> before;
  try {
    inputs_.bind(given);
    before.emplace(inputs_, given, subject_.draws);
  } catch (const std::exception &error) {
    reject(first_line(error));
    return false;
  }
  return record(home_) && compare(stack, *before);
}

bool Entry::compare(jit::Stack &stack, const Effects &before) {
  const std::vector<c10::IValue> given = jit::last(stack, inputs_.size()).vec();
  jit::Stack replayed;
  std::optional<Effects> after;
  try {
    replay_for(given, replayed);
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
  const auto plain = jit::last(stack, subject_.graph.outputs().size());
  auto differs = difference_of_results(replayed, plain);
  if (!differs)
    differs = after->difference(before.again(inputs_, given));
  if (differs)
    reject("the first replay of its capture differs in " + *differs);
  else
    state_ = State::ready;
  return true;
}

void Entry::replay_for(c10::ArrayRef<c10::IValue> given, jit::Stack &results) {
  const auto memory = results_.allocate();
  const c10::Stream caller = device_.current(index_);
  if (caller != last_)
    device_.wait(caller, last_);
  inputs_.copy_in(given);
  device_.replay(*captured_, caller);
  last_ = caller;
  inputs_.copy_back(given);
  results_.append(results, memory, given);
}

bool Entry::replay(jit::Stack &stack) {
  jit::Stack results;
  try {
    const auto given = jit::last(stack, inputs_.size());
    replay_for(given, results);
    inputs_.count_writes(given);
  } catch (const std::exception &error) { // nothing has been executed
    reject("a replay failed: " + first_line(error));
    return false;
  }
  jit::drop(stack, inputs_.size());
  stack.insert(stack.end(), std::make_move_iterator(results.begin()),
               std::make_move_iterator(results.end()));
  return true;
}

void Entry::reject(std::string why) {
  state_ = State::not_captured;
  why_not_ = std::move(why);
  release();
}

/// Memory is used again by the stream that it was allocated on: after the last replay.
void Entry::release() noexcept {
  if (process_ != getpid()) { // a child of fork() can't use its parent's device
    static_cast<void>(captured_.release());
    return;
  }
  try {
    if (last_ != home_ && captured_)
      device_.wait(home_, last_);
  } catch (const std::exception &) { // the device has failed: nothing runs on it any more
  }
  results_.unbind();
  captured_.reset();
  inputs_.unbind();
  if (std::exchange(has_pool_, false))
    device_.drop(pool_);
}

} // namespace tracehost::capture
