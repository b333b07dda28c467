#pragma once

#include "tracehost/archive.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

/// Hot reload.
///
///     tracehost::Watcher watcher("model.thz", {.interval = 500ms});
///     tracehost::Function predict = watcher["predict"];   // of the file that is there
///
/// The file is looked at (time and size); when it is another one it is loaded aside, warmed up, and
/// takes the place of the one before. Calls that run finish with the old one; none waits, none
/// fails. A file that can't be loaded, that `check` throws on, or that lacks a function of the one
/// before is reported, once, and the old one stays. Write the new file under another name and
/// rename it.
///
/// The callbacks run on the Watcher's thread, or in poll(), one at a time. A poll() in a callback
/// returns false. A callback may destroy the Watcher.

namespace tracehost {
inline namespace TRACEHOST_ABI {

struct WatchOptions {
  std::chrono::milliseconds interval{1000}; ///< 0: no thread; poll() looks. A year at most
  LoadOptions load = {};
  /// Called on a new archive, warm, before it is taken: throws where it must not be.
  std::function<void(const Archive &)> check = {};
  /// It has been taken. What this throws goes to `on_error`; the archive stays.
  std::function<void(const Archive &)> on_reload = {};
  /// A file was not taken. What this throws is dropped.
  std::function<void(const std::string &message)> on_error = {};
};

class TRACEHOST_API Watcher {
public:
  /// Loads the file; throws as Archive::load does.
  explicit Watcher(std::string path, WatchOptions options = {});
  ~Watcher();
  Watcher(const Watcher &) = delete;
  Watcher &operator=(const Watcher &) = delete;

  Archive archive() const; ///< the current one
  /// A function that each call looks up by `name` in the current archive. May outlive the Watcher.
  Function operator[](const std::string &name) const;
  /// Looks at the file now. Whether a new one was taken.
  bool poll();

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
