#pragma once

/// What Python makes at its first use and the process keeps: imported functions, interned names,
/// types.
///
/// Problem: the initialiser of a `static` local runs under a lock of C++. An initialiser that
/// imports gives up the GIL. A thread that then gets the GIL and comes to the same place waits
/// forever for that lock, with the GIL held. Answer: the GIL is the only lock.
///
///     static constinit Lazy<PyObject *> convert;
///     call(convert([] { return entry("tracehost.autograph.run.calls", "convert_callable"); }));

namespace tracehost::python {

template <class T> class Lazy {
public:
  constexpr Lazy() = default;
  Lazy(const Lazy &) = delete;
  Lazy &operator=(const Lazy &) = delete;

  /// `make()` may give up the GIL: then two threads may run it, and the first that ends is kept.
  /// If it throws, the next call tries again. Requires: GIL held.
  template <class Make> T &operator()(const Make &make) {
    if (!made_) [[unlikely]] {
      auto *fresh = new T(make());
      if (made_)
        delete fresh;
      else
        made_ = fresh;
    }
    return *made_;
  }

private:
  T *made_ = nullptr; // never freed: the interpreter may end before the statics do
};

} // namespace tracehost::python
