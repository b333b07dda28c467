#include "guards/memory.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <memory>

namespace tracehost::python {

namespace {

std::uint64_t shape_of(const Py_buffer &buffer) {
  std::uint64_t hash = static_cast<std::uint64_t>(buffer.itemsize);
  if (buffer.format)
    hash = XXH3_64bits_withSeed(buffer.format, std::strlen(buffer.format), hash);
  if (buffer.shape)
    hash = XXH3_64bits_withSeed(buffer.shape,
                                static_cast<std::size_t>(buffer.ndim) * sizeof *buffer.shape, hash);
  return hash;
}

/// Dates are in no buffer that others may read, but numpy copies them.
PyObject *copied_contents(PyObject *object) {
  const Owned bytes(PyObject_CallMethod(object, "tobytes", nullptr));
  forget_error();
  if (!bytes || !PyBytes_CheckExact(bytes.get()))
    return nullptr;
  return PyLong_FromUnsignedLongLong(XXH3_64bits(
      PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))));
}

} // namespace

bool has_memory(PyObject *object) {
  return PyObject_CheckBuffer(object) &&
         (changes_unseen(object) || PyMemoryView_Check(object) || is_opaque(object) ||
          (has_user_attributes(Py_TYPE(object)) && !PyBytes_Check(object))); // of ctypes
}

PyObject *memory_of(PyObject *object) {
  Py_buffer buffer{};
  if (PyObject_GetBuffer(object, &buffer, PyBUF_FULL_RO) != 0) {
    forget_error();
    return copied_contents(object);
  }
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> held(&buffer, &PyBuffer_Release);
  if (buffer.format && std::strchr(buffer.format, 'O'))
    return nullptr;
  const std::uint64_t shape = shape_of(buffer);
  const auto size = static_cast<std::size_t>(buffer.len);
  if (PyBuffer_IsContiguous(&buffer, 'C'))
    return PyLong_FromUnsignedLongLong(XXH3_64bits_withSeed(buffer.buf, size, shape));
  const Owned copy(PyBytes_FromStringAndSize(nullptr, buffer.len));
  const bool copied =
      copy && PyBuffer_ToContiguous(PyBytes_AS_STRING(copy.get()), &buffer, buffer.len, 'C') == 0;
  forget_error();
  return copied ? PyLong_FromUnsignedLongLong(
                      XXH3_64bits_withSeed(PyBytes_AS_STRING(copy.get()), size, shape))
                : nullptr;
}

} // namespace tracehost::python
