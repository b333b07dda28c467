#pragma once

#include "function/function.h"
#include "support/frontend.h"
#include "support/signatures.h"

#include <functional>
#include <mutex>
#include <string>
#include <vector>

/// Calls of a Function whose body is C++: a tensor `x` and an int `n`.

namespace tracehost::test {

struct Call {
  Call(at::Tensor tensor, std::int64_t number) : x(std::move(tensor)), n(number) {}
  at::Tensor x;
  std::int64_t n;
  Context context = Context::now();
  Stance stance = Stance::trace;
};

/// Keeps the events, as text.
class FakeSink final : public Sink {
public:
  void created(std::shared_ptr<const Counters> function) override {
    note("created " + function->identity.name);
  }
  void on(const TraceEvent &e) override {
    note("trace " + e.signature + (e.first ? " first" : "") + (e.was_evicted ? " again" : "") +
         (e.differences.empty() ? ""
                                : " " + e.differences[0].path + ": " + e.differences[0].before +
                                      " -> " + e.differences[0].after));
  }
  void on(const EvictEvent &e) override {
    note("evict " + e.signature + " hits " + std::to_string(e.hits));
  }
  void on(const FailEvent &e) override {
    note("fail " + text(e.call) + " " + e.error + (e.went_on ? "; went on" : ""));
  }

  void on(const MismatchEvent &e) override {
    note("mismatch " + e.signature + " " + e.what + " by " + e.culprit + " hits " +
         std::to_string(e.hits));
  }
  void on(const GraphEvent &e) override { note("graph " + e.signature + " " + e.news.why); }

  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

private:
  void note(std::string event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::mutex mutex_;
  std::vector<std::string> events_;
};

class FakeBody final : public Body, public TraceSession {
public:
  using Run = std::function<at::Tensor(const at::Tensor &, std::int64_t)>;
  explicit FakeBody(Run run) : run_(std::move(run)) {}

  /// As the Body of one call. `call` outlives that call.
  FakeBody &of(const Call &call) {
    call_ = &call;
    context = call.context;
    stance = call.stance;
    failed.clear();
    found.reset();
    rejection.clear();
    abandoned.reset();
    failed_check.clear();
    wider = false;
    mismatch.reset();
    skips = 0;
    return *this;
  }

  bool verify(Specialization &s, Operands &operands) override {
    ++verified;
    if (!differences(s.signature, signature()).empty())
      return false;
    operands.lend(call_->x);
    return true;
  }
  Signature flatten(std::vector<at::Tensor> &slots) override {
    slots = {call_->x};
    return signature();
  }
  void current_guards(const Specialization &, Signature &) override { ++shown; }
  Surroundings surroundings(const Specialization &) override { return around; }
  BodyResult run() override {
    ++runs;
    result_ = at::Tensor();
    frontend_.go_on = [this](trace::Rejection why) {
      const bool goes_on = Body::goes_on(why);
      if (goes_on)
        abandoned = {why, "net.py:12"};
      return goes_on;
    };
    BodyResult result;
    result.tensors = {result_ = run_(call_->x, call_->n)};
    result.outputs.tensors = 1;
    return result;
  }
  std::shared_ptr<FrontEndState> finish(Signature &, const trace::Traced &) override {
    if (reject_at_end)
      throw FakeFrontend::Rejected(trace::Rejection::trace, "rejected at the end");
    auto state = std::make_shared<FrontEndState>();
    state->once = once;
    return state;
  }
  std::optional<BesideResult> run_beside(const Specialization &) override {
    if (!can_run_beside)
      return std::nullopt;
    ++runs;
    return BesideResult{{run_(call_->x, call_->n)}, {}};
  }
  TraceSession &session() override { return *this; }
  trace::Frontend &frontend() override { return frontend_; }
  bool has_result() const override { return result_.defined(); }
  Site caller() override { return {"app.cpp", 7}; }
  std::string current_error() override {
    try {
      throw;
    } catch (const std::exception &e) {
      return e.what();
    }
  }

  std::string once; ///< FrontEndState::once of the traces
  bool reject_at_end = false;
  bool can_run_beside = true;
  Surroundings around = Surroundings::unknown;
  int runs = 0, verified = 0;
  int shown = 0; ///< how often current_guards() was called

private:
  Signature signature() const {
    Signature s =
        test::call({{"x", tensor(0, TensorMeta::of(call_->x))}, {"n", integer(call_->n)}});
    s.context = context;
    return s;
  }
  const Call *call_ = nullptr;
  Run run_;
  at::Tensor result_;
  FakeFrontend frontend_;
};

} // namespace tracehost::test
