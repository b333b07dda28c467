#include "base/dict_watch.h"

#include <span>

/// Python 3.11: each dict has a version tag, which no other dict has at any time.

namespace tracehost::python {

namespace {

/// `PyDictKeysObject` of pycore_dict.h, where each key is a str.
struct Keys {
  Py_ssize_t references;
  std::uint8_t log2_of_size, log2_of_index_bytes, kind;
  std::uint32_t version;
  Py_ssize_t usable, count;

  struct Entry {
    PyObject *key, *value; ///< null: removed
  };
  std::span<const Entry> entries() const {
    const char *indices = reinterpret_cast<const char *>(this + 1);
    return {reinterpret_cast<const Entry *>(indices + (std::size_t{1} << log2_of_index_bytes)),
            static_cast<std::size_t>(count)};
  }
};
constexpr std::uint8_t kUnicode = 1; ///< not split between objects, and each key a str

/// By a search, which finds the place for the next time.
PyObject *search(PyObject *dict, PyObject *name, std::int32_t &place) {
  PyObject *value = look_up(dict, name);
  const auto &keys =
      *reinterpret_cast<const Keys *>(reinterpret_cast<PyDictObject *>(dict)->ma_keys);
  if (!value || place == kNeverThere || keys.kind != kUnicode)
    return value;
  place = kNeverThere; // an equal key that is another object
  const auto entries = keys.entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i].key == name)
      place = static_cast<std::int32_t>(i);
  return value;
}

} // namespace

PyObject *value_of(PyObject *dict, PyObject *name, std::int32_t &place) {
  const auto &keys =
      *reinterpret_cast<const Keys *>(reinterpret_cast<PyDictObject *>(dict)->ma_keys);
  if (place >= 0 && place < keys.count && keys.kind == kUnicode) [[likely]] {
    const Keys::Entry &entry = keys.entries()[static_cast<std::size_t>(place)];
    if (entry.key == name) [[likely]]
      return entry.value;
  }
  return search(dict, name, place);
}

/// The dict itself.
struct DictWatch::Followed {
  PyDictObject dict;
};

bool DictWatch::follows(PyObject *dict) const { return reinterpret_cast<PyObject *>(on_) == dict; }

bool DictWatch::start(PyObject *dict, std::span<PyObject *const>, bool) {
  on_ = reinterpret_cast<Followed *>(dict);
  return true;
}

DictSeen DictWatch::now() const { return {&on_->dict.ma_version_tag, on_->dict.ma_version_tag}; }

void DictWatch::stop() { on_ = nullptr; }

bool DictWatch::is_followed(PyObject *) { return true; }

} // namespace tracehost::python
