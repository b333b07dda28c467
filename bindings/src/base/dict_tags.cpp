#include "base/dict_watch.h"

/// Python 3.11: each dict has a version tag, which no other dict has at any time.

namespace tracehost::python {

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
