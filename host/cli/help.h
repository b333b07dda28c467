// Help texts, made from the table.
#pragma once

#include "cli/table.h"

#include <string>

namespace tracehost::cli {

std::string general_help();
std::string command_help(Command command);
// Ten lines, for somebody who typed the name alone.
std::string short_help();

} // namespace tracehost::cli
