#include "cache/flights.h"

#include <algorithm>

namespace tracehost {

std::vector<Flights::Ref> Flights::under_way(std::uint64_t &version) {
  std::lock_guard lock(mutex_);
  std::erase_if(flights_, [](const Ref &flight) { return flight->process != getpid(); });
  version = version_;
  return flights_;
}

Flights::Ref Flights::board(const Signature &signature, std::uint64_t version) {
  auto flight = std::make_shared<Flight>();
  flight->signature = signature;
  std::lock_guard lock(mutex_);
  if (version != version_)
    return nullptr;
  ++version_;
  flights_.push_back(flight);
  return flight;
}

void Flights::land(const Ref &flight) {
  {
    std::lock_guard lock(mutex_);
    ++version_;
    flight->landed = true;
    std::erase(flights_, flight);
  }
  landed_.notify_all();
}

void Flights::wait(const Ref &flight) {
  std::unique_lock lock(mutex_);
  landed_.wait(lock, [&] { return flight->landed; });
}

} // namespace tracehost
