#pragma once

#include <c10/core/Device.h>

namespace tracehost::shapes {

/// `device` with an index, as a tensor's device has one: `cuda` is the current device of its kind,
/// the thread's own. Index 0 where there is no driver. `cpu` and `meta` stay as they are.
c10::Device with_index(c10::Device device);

} // namespace tracehost::shapes
