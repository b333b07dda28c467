#include "shapes/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tracehost::shapes {

c10::Device with_index(c10::Device device) {
  if (device.has_index() || device.is_cpu() || device.is_meta())
    return device;
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    return {device.type(), 0};
  try {
    return c10::impl::VirtualGuardImpl(device.type()).getDevice();
  } catch (const c10::Error &) { // no driver
    return {device.type(), 0};
  }
}

} // namespace tracehost::shapes
