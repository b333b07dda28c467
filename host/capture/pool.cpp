#include "capture/pool.h"

#include <utility>

namespace tracehost::capture {

/// A device does not know a pool any more after its last capture.
void Pool::begin(c10::Stream stream) {
  const std::scoped_lock lock(mutex_);
  if (captures_ == 0)
    id_ = device_.new_pool();
  ++captures_;
  begun_ = true;
  device_.begin(stream, id_);
}

void Pool::abandon() noexcept {
  device_.abandon();
  const std::scoped_lock lock(mutex_);
  if (std::exchange(begun_, false))
    leave();
}

void Pool::leave() {
  if (--captures_ == 0)
    device_.drop(id_);
}

std::unique_ptr<Captured> Pool::end() {
  auto captured = device_.end();
  const std::scoped_lock lock(mutex_);
  begun_ = false;
  return captured;
}

std::int64_t Pool::growth() {
  const std::scoped_lock lock(mutex_);
  const auto now = static_cast<std::int64_t>(device_.bytes_of(id_, index_));
  return now - std::exchange(bytes_, now);
}

std::int64_t Pool::free(std::unique_ptr<Captured> captured) {
  const std::scoped_lock lock(mutex_);
  captured.reset();
  leave();
  return captures_ == 0 ? std::exchange(bytes_, 0) : 0;
}

std::shared_ptr<Pool> Pools::of(GraphDevice &device, c10::DeviceIndex index) {
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<Pool> &known = pools_[index];
  if (auto pool = known.lock())
    return pool;
  auto made = std::make_shared<Pool>(device, index);
  known = made;
  return made;
}

void Pools::forget(const std::shared_ptr<Pool> &pool) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pools_, [&pool](const auto &known) { return known.second.lock() == pool; });
}

} // namespace tracehost::capture
