#pragma once

#include "program/callback.h"
#include "trace/op_hook.h"
#include "trace/tracer.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

/// Calls out of the graph (program/callback.h), as a trace records them: prepare_call, the call
/// itself in a Called block, record_call.

namespace tracehost::trace {

/// Makes the inputs known to the trace, and brings its modes up to date. Requires: recording().
void prepare_call(const std::vector<at::Tensor> &inputs);

/// Code that each run will call runs as outside of any trace for a block. Requires: recording().
class Called {
public:
  Called();
  ~Called();

private:
  class Trace *trace_;
  Paused paused_;
  InstalledHook off_{nullptr};
};

/// Records a call that has run. `outputs` are tensors that nothing else refers to. Requires:
/// recording().
void record_call(c10::intrusive_ptr<Callback> callback, const std::vector<at::Tensor> &inputs,
                 const std::vector<at::Tensor> &outputs);
/// A call or a branch that ran for real has raised, and so is not recorded. A body that catches the
/// exception and continues is unsupported, with `message`. Requires: active().
void note_raised(const std::string &message);

/// Whether the trace runs without data, and so calls nothing. Requires: active().
bool without_data();

} // namespace tracehost::trace
