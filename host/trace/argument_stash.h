#pragma once

namespace tracehost::trace {

/// Empties what libtorch's tracer keeps between a Python argument and the op it belongs to.
///
/// A traced tensor given where an int is expected (`x[i]`) is stashed by the argument's name before
/// it is read. A read that raises leaves in the stash a Value of a graph that is about to be
/// destroyed. The next op with an argument of that name would use this Value. To be called when a
/// body fails, before its graph is destroyed. Requires: tracing.
void clear_argument_stash();

} // namespace tracehost::trace
