#pragma once

#include "event/event.h"

#include <Python.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What functions, types and methods of C code read and store. Their code can't be observed, so a
/// table says it (c_table.h), by module and name. C code without a row may do anything with the
/// objects that it is given: the trace then serves its own call.

namespace tracehost::python {

/// What a call does with its arguments. Code of Python that it runs is observed.
enum class Effect : std::uint8_t {
  unknown, ///< not in the table: may read and store all that the arguments hold
  nothing, ///< asks for an identity or a class, or keeps an argument
  shows,   ///< print(): nothing, and what is shown there need not be guarded
  // Reads.
  length,        ///< how long the first is, or whether it is true
  elements,      ///< the elements of each, and not what is in these
  contents,      ///< all that each holds
  attribute,     ///< an attribute of the first that the second names
  attributes,    ///< every attribute of the first
  item,          ///< an entry or element of the first by the second
  pieces,        ///< every attribute of each, and all that each holds: str.format, repr
  pickled,       ///< every attribute of each object that each leads to
  globals,       ///< the caller's globals
  classes,       ///< which class each object is of, and what its class inherits
  instance_of,   ///< an abstract class, then an object
  subclass_of,   ///< an abstract class, then a class
  subclasses,    ///< the classes below the first
  process_state, ///< called with plain values: a value that a later call asks for again
  setting,       ///< the same of a switch of torch, if code of the user's asks
  context,       ///< the value of a ContextVar
  changing,      ///< what changes by itself or with anything, so that no later call can compare it
  outside,       ///< what no later call can compare: the clock, files, other programs
  device,        ///< chooses a device or a stream, or orders what runs on it
  threads,       ///< starts a thread, or gives to one or takes from one: code there is not seen
  // Stores.
  store_attribute, ///< of the first, named by the second
  store_item,      ///< of the first, by the second
  adds,            ///< the elements of the others to the first
  removes,         ///< an element of the first that the second names; without one, the last
  moves,           ///< elements of the first, or removes them all
  changes,         ///< contents, and may store to any of them
};

/// Whether a call may run in a side of an `if` that the call of the Function does not take.
enum class Purity : std::uint8_t {
  by_effect,  ///< of a row: as the Effect says
  pure,       ///< it computes; what it stores is seen by its Effect
  takes,      ///< it takes elements of the iterators that it is given
  of_objects, ///< it may change what it is given, and is pure for what the body has made
  repeated,   ///< not pure; the graph has it, or no later call can tell (a lock)
  once,       ///< not pure, and no graph has it: it prints, writes files, ends the process
  lost,       ///< the same, and an attempt to stage a loop could not undo it
};

struct Rule {
  Effect effect = Effect::unknown;
  Purity purity = Purity::once;
};

/// Of a function or type, with `module` and `name` as C code gives them.
Rule rule_of(std::string_view module, std::string_view name);
/// Of a callable object of C code: what it calls may store to its arguments.
Rule rule_of_object(std::string_view module, std::string_view name);
/// Of a method of a C type, called on `self`.
Rule rule_of_method(PyObject *self, std::string_view name);

/// A call of C code of which nothing is known but that it may read what no guard compares.
struct UnknownCall {
  std::string what; ///< `time.time()`
  Site where;
  bool users; ///< of the user's code
};

/// Names of the effects that a read or store follows from.
std::vector<std::string> effects();
/// Takes an effect away, or gives it back: `nothing` stands in its place. False: there is none of
/// that name. For tests. Requires: GIL held.
bool switch_effect(std::string_view name, bool on);

} // namespace tracehost::python
