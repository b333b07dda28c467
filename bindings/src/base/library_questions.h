#pragma once

/// Questions by which a library finds out whether a tensor's values may be read.
///
/// Problem: transformers looks into an attention mask, so that it can leave the mask out where it
/// masks nothing. On a GPU each look waits for the device, and each answer is a graph of its own.
/// transformers does not look while it is traced, and asks `is_tracing(mask)` before. Answer: of a
/// tensor that is not on the CPU this is answered with yes. On the CPU a look costs little: there
/// the answer is no, and the same kernels run as in eager.

namespace tracehost::python {

/// Whether the code that runs now asks such a question about a tensor on a device. Runs no user
/// code. Requires: GIL held, a trace is active on this thread.
bool is_asked_about_device();

} // namespace tracehost::python
