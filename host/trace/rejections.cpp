#include "trace/argument_stash.h"
#include "trace/trace.h"

#include <exception>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// A user can't change a line of a library, which most remedies are about.
std::string with_remedy_in_library(const std::string &what, const Site &here) {
  if (here.inside.empty() || what.find(here.inside) == std::string::npos)
    return what;
  return what + " That line is a library's: decorate a part of the function that does not reach "
                "it, or call it in tracehost.py_function.";
}

} // namespace

void Rejections::reject(Rejection why, const std::string &message) {
  const std::string what = with_remedy_in_library(message, trace_.frontend.here());
  if (!rejected_) {
    rejected_ = true;
    why_ = why;
    what_ = what;
  }
  if (tracer::isTracing()) // a block that is taken out of the graph takes what is stashed along
    clear_argument_stash();
  if (!trace_.blocks.on_fake_tensors() &&
      abandons()) // else only the code that stages the block can continue
    throw Abandoned(what_);
  trace_.frontend.reject(why, what);
  std::terminate(); // a front end's `reject()` throws
}

bool Rejections::abandons() {
  if (!abandoned_ && rejected_ && trace_.frontend.goes_on(why_)) {
    abandoned_ = true;
    set_tracing_state(nullptr);
  }
  return abandoned_;
}

void Rejections::throw_abandoned() const { throw Abandoned(what_); }

void Rejections::repeat() const {
  if (rejected_ && !abandoned_)
    trace_.frontend.reject(why_, what_);
}

} // namespace tracehost::trace
