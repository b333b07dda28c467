#pragma once

#include <Python.h>

namespace tracehost::python {

/// No observer and no trace function sees the instructions that this thread runs while this lives:
/// tracehost's own Python, which reads nothing for the body. An event for each instruction makes
/// Python code several times slower. They nest. Requires: GIL held.
class Unobserved {
public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved &) = delete;
  Unobserved &operator=(const Unobserved &) = delete;
};

/// The user's code runs while this lives: observed, below an Unobserved too. Requires: GIL held.
class Observed {
public:
  Observed();
  ~Observed();
  Observed(const Observed &) = delete;
  Observed &operator=(const Observed &) = delete;

private:
  int around_; ///< of Unobserved
};

} // namespace tracehost::python
