#include "base/dict_watch.h"
#include "base/forget_error.h"

#include "base/lazy.h"
#include "base/object.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

/// Python 3.12 and newer: a watcher of dicts (PyDict_Watch).
///
/// A dict that is followed has one record, whoever follows it. The watcher finds it by the dict's
/// address, and moves its version. The watcher runs at any moment on any thread: it allocates
/// nothing and calls nothing. A name is compared by its hash, because it need not be interned.
///
///     SCALE = 2.0              f reads SCALE: the record has its hash
///     for i in range(9):       an event for `i`, whose hash is not there: idle + 1
///         f(x)                 the version is as it was
///     SCALE = 3.0              an event for `SCALE`: the version moves
///
/// Events cost the program time. A dict with kIdle changes of other names between two that count is
/// therefore given up. A process has eight watchers, of which CPython and torch take some. If none
/// is left, no dict is followed.

namespace tracehost::python {

namespace {

constexpr std::uint32_t kIdle = 1000;

int watcher = -1; ///< the number that CPython gave; -1: none

} // namespace

struct DictWatch::Followed {
  explicit Followed(PyObject *of) : address(of), dict(of) {}

  std::uint64_t version = 0;
  PyObject *const address;
  PyObject *dict;               ///< null once it is gone
  std::uint32_t users = 0;      ///< of type DictWatch
  std::uint32_t whole = 0;      ///< how many of these count each change
  std::uint32_t idle = 0;       ///< changes since the last one that counted
  bool given_up = false;        ///< no event comes any more
  std::vector<Py_hash_t> names; ///< hashes of the names that count, sorted

  bool tired() const { return idle >= kIdle; }

  bool counts(PyObject *key) const {
    if (whole || !key || !PyUnicode_CheckExact(key))
      return true;
    const Py_hash_t hash = reinterpret_cast<PyASCIIObject *>(key)->hash; // -1: not known
    return hash == -1 || std::binary_search(names.begin(), names.end(), hash);
  }

  using Table = std::unordered_map<PyObject *, Followed *>;
  static Table &table() {
    static constinit Lazy<Table> made;
    return made([] { return Table(); });
  }

  static int on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *) {
    const auto found = table().find(dict);
    if (found == table().end())
      return 0;
    Followed &f = *found->second;
    const bool one = event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED ||
                     event == PyDict_EVENT_DELETED;
    if (event == PyDict_EVENT_DEALLOCATED)
      f.dict = nullptr;
    else if (!one || f.counts(key))
      f.idle = 0;
    else if (++f.idle < kIdle)
      return 0;
    ++f.version;
    return 0;
  }

  /// Null: no watcher is left.
  static Followed *of(PyObject *dict) {
    Followed *&found = table()[dict];
    if (found && found->dict) // else another dict was at this address
      return found;
    if (watcher < 0)
      watcher = PyDict_AddWatcher(on_event);
    if (watcher < 0 || PyDict_Watch(watcher, dict) != 0) {
      forget_error();
      if (!found)
        table().erase(dict);
      return nullptr;
    }
    return found = new Followed(dict);
  }

  void add(std::span<PyObject *const> more) {
    for (PyObject *name : more) {
      const Py_hash_t hash = PyObject_Hash(name);
      if (const auto at = std::ranges::lower_bound(names, hash); at == names.end() || *at != hash)
        names.insert(at, hash);
    }
  }

  void give_up() {
    if (!given_up && dict)
      PyDict_Unwatch(watcher, dict);
    given_up = true;
    ++version; // the others that follow it must learn so, too
  }

  void drop() {
    if (--users > 0)
      return;
    if (dict && !given_up)
      PyDict_Unwatch(watcher, dict);
    if (const auto found = table().find(address); found != table().end() && found->second == this)
      table().erase(found);
    delete this;
  }
};

bool DictWatch::follows(PyObject *dict) const {
  return on_ && on_->dict == dict && !on_->given_up && !on_->tired();
}

bool DictWatch::start(PyObject *dict, std::span<PyObject *const> names, bool whole) {
  const KeepError keep;
  if (!on_ || on_->dict != dict || whole_ != whole) {
    Followed *found = Followed::of(dict);
    if (found)
      ++found->users; // first: it may be the same
    stop();
    on_ = found;
    whole_ = whole;
    if (!on_)
      return false;
    on_->whole += whole;
  }
  if (on_->tired() && !on_->given_up)
    on_->give_up();
  on_->add(names);
  return !on_->given_up;
}

DictSeen DictWatch::now() const { return {&on_->version, on_->version}; }

void DictWatch::stop() {
  if (!on_ || !python_alive())
    return;
  on_->whole -= whole_;
  std::exchange(on_, nullptr)->drop();
}

bool DictWatch::is_followed(PyObject *dict) {
  const auto found = Followed::table().find(dict);
  return found != Followed::table().end() && found->second->dict && !found->second->given_up;
}

/// What changes is reported: nearly all names are not looked up at all.
PyObject *value_of(PyObject *dict, PyObject *name, std::int32_t &) { return look_up(dict, name); }

} // namespace tracehost::python
