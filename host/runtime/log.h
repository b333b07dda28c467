#pragma once

#include "tracehost/log.h"

#include <cstdint>
#include <string>

namespace tracehost::runtime {

/// Whether set_log() has given a receiver: else a message need not be made.
bool logs() noexcept;
/// To the receiver, if there is one. Throws nothing.
void log(LogLevel level, const std::string &source, const std::string &message) noexcept;
/// What the exception that is being handled says, for a message about it.
std::string text_of_exception();
/// Whether the event of this number, from 1 on, is reported: the 1st, 2nd, 4th, 8th ...
constexpr bool is_reported(std::uint64_t number) { return (number & (number - 1)) == 0; }

} // namespace tracehost::runtime
