#pragma once

#include "runtime/bridge.h"

#include <Python.h>

/// The one Python of the process, as far as calls from C++ go.

namespace tracehost::embedding {

using runtime::Bridge;
using runtime::PythonCallee;

/// Holds Python's lock for a block, and keeps stop() waiting. Throws Error if Python was not
/// started, was stopped, or is ending.
class InPython {
public:
  InPython();
  ~InPython();
  InPython(const InPython &) = delete;
  InPython &operator=(const InPython &) = delete;

  Bridge &bridge() const;

private:
  PyGILState_STATE held_;
};

/// Destroys `callee` if Python still is; else it is left as it is.
void release(std::unique_ptr<PythonCallee> callee);

} // namespace tracehost::embedding
