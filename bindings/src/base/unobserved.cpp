#include "base/unobserved.h"

#include <utility>

namespace tracehost::python {

namespace {

constinit thread_local int under_way = 0;

void enter(int times) {
  for (int i = 0; i < times; ++i)
    PyThreadState_EnterTracing(PyThreadState_Get());
}

void leave(int times) {
  for (int i = 0; i < times; ++i)
    PyThreadState_LeaveTracing(PyThreadState_Get());
}

} // namespace

Unobserved::Unobserved() {
  ++under_way;
  enter(1);
}

Unobserved::~Unobserved() {
  --under_way;
  leave(1);
}

Observed::Observed() : around_(std::exchange(under_way, 0)) { leave(around_); }

Observed::~Observed() {
  under_way = around_;
  enter(around_);
}

} // namespace tracehost::python
