#include "runtime.h"

#include <dlfcn.h>

#include <array>
#include <string_view>

/// Counts of calls, and of calls that were made while the thread held Python's GIL.

namespace standin {

namespace {

// In the order of Counter.
constexpr std::array kNames = {
    "kernel",       "sync",       "malloc",  "free",        "host_alloc",   "memcpy",      "memset",
    "event_record", "wait_event", "capture", "instantiate", "graph_launch", "real_kernel",
};
constexpr std::string_view kWithGil = "gil_";

struct Counts {
  std::atomic<long> all{0};
  std::atomic<long> with_gil{0};
};
std::array<Counts, kNames.size()> counts;

/// Python is found at run time: a C++ program has none.
bool holds_gil() {
  using Check = int (*)();
  static const auto initialised = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  static const auto holds = reinterpret_cast<Check>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return initialised && holds && initialised() && holds();
}

} // namespace

void count(Counter counter) {
  Counts &counted = counts[static_cast<std::size_t>(counter)];
  ++counted.all;
  if (holds_gil())
    ++counted.with_gil;
}

} // namespace standin

extern "C" {

/// The name of the counter with that number; null after the last.
const char *standin_counter_name(int number) {
  return number < static_cast<int>(standin::kNames.size()) ? standin::kNames[number] : nullptr;
}

/// "sync" counts all synchronisations, "gil_sync" those with the GIL. -1: the name is unknown.
long standin_count(const char *name) {
  std::string_view wanted = name;
  const bool with_gil = wanted.substr(0, standin::kWithGil.size()) == standin::kWithGil;
  if (with_gil)
    wanted.remove_prefix(standin::kWithGil.size());
  for (std::size_t i = 0; i < standin::kNames.size(); ++i)
    if (standin::kNames[i] == wanted)
      return with_gil ? standin::counts[i].with_gil : standin::counts[i].all;
  return -1;
}

/// Sets all counts to 0, those of streams included.
void standin_reset() {
  for (standin::Counts &counted : standin::counts) {
    counted.all = 0;
    counted.with_gil = 0;
  }
  standin::reset_kernels();
}
}
