#pragma once

#include <Python.h>

#include <string>
#include <vector>

/// What kind of thing an object is, where guards treat kinds in different ways. Runs no user code.

namespace tracehost::python {

bool is_deque(PyObject *value);

/// A list, tuple, dict, set or deque: its elements have slots.
bool is_collection(PyObject *value);

/// Whether it can change though it stays the same object, in a way that no slot shows: any object
/// of C code that is not known to be fixed.
bool is_opaque(PyObject *value);

/// Whether all that it says may be another thing the next time: an iterator, a file, what a thread
/// has for itself. What can change has no hash, by Python's custom.
bool changes_unseen(PyObject *value);

/// Whether no result shows a change of such an object: it is immutable, its state is torch's own
/// and read by ops, or it only waits (a lock).
bool is_fixed(PyTypeObject *type);

/// A subclass of torch.Tensor that is the user's or a package's: its attributes may change.
bool is_users_tensor_class(PyTypeObject *type);

/// A class that tracehost defines, such as Function.
bool is_own_type(PyTypeObject *type);

/// The dict that an object of C code keeps, borrowed, or null: a dict's view, a mappingproxy, what
/// functools.lru_cache has made.
PyObject *inner_dict(PyObject *object);
bool has_inner_dict(PyTypeObject *type);

/// What C code finds in a container, view or iterator of C code, at any depth: the object itself,
/// and the containers, views and iterators in it. `all`: all else, too. Borrowed.
std::vector<PyObject *> parts_of(PyObject *object, bool all);

/// A key that may hold other objects, so that Guards must not keep it alive.
bool may_hold(PyObject *key);

/// A thread-local or a context variable: another thread or context finds another value.
bool is_of_a_thread(PyObject *value);
/// `random` or `numpy.random`, if `self` is a generator of that module; else "".
std::string foreign_generator(PyObject *self);

/// An element that a set's guard can hold: no change of it can go unseen, and it holds no argument.
bool is_value(PyObject *element);

/// An operator.attrgetter or itemgetter.
bool is_getter(PyObject *callable);

/// An object of which others of its class may come in its place where all that is read of it is the
/// same: an instance of a class of Python, compared by identity and nothing else. No module of
/// torch.nn, no object of torch's own.
bool may_be_another(PyObject *object);

/// A field of a namedtuple.
bool is_tuple_field(PyObject *descriptor);

/// sys.stdout and its like: where a trace prints. A notebook has others in each cell.
bool is_stream(PyObject *module, PyObject *name);

} // namespace tracehost::python
