#pragma once

#include "report/remedy.h"

#include <string>

namespace tracehost::report {

/// The text of a retrace warning: what happened and its cost, a `why` line for each cause, and for
/// each a `fix` line that was replayed against the recorded traces, else a `see` line. No newline
/// at the end.
///
///     5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
///       why   argument 'lr' took 5 values (0.1, 0.2, 0.3, 0.4, 0.5), from train.py:40
///       fix   pass torch.tensor(0.5) for 'lr' ...   would save 4 of 5 traces
std::string message(const Account &account);

/// The text for the first eviction, of the Specialization with this Signature; as message(), but
/// for the first line.
std::string eviction(const Account &account, const std::string &signature);

/// All but the first line of message(), each line behind a newline.
std::string causes_and_fixes(const Account &account);

/// `41 ms`, `0.4 ms`, `12.3 s`.
std::string duration(std::uint64_t nanoseconds);

} // namespace tracehost::report
