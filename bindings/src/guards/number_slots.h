#pragma once

#include "base/object.h"
#include "guards/graph.h"
#include "guards/trace_history.h"

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <vector>

/// Slots that hold numbers which the body reads and then stores: counters, a learning rate, the
/// position in a ring buffer.
///
/// Problem: such a slot has another value at each call, so a guard on the value would trace each
/// call. Answer: the first trace guards the value, and stores what the body stored at each hit. A
/// flag that is set once needs no more. A later trace that finds another int or float in the slot
/// makes the number an input of the graph.
///
///     self.n += 1      1st trace: guard self.n == 0, hits store 1
///                      2nd trace: %n : Tensor = self.n;  %1 : int = aten::item(%n)
///                                 %2 : int = tracehost::py_add(%1, 1), hits store %2
///
/// The body must read a traced number then. The slot is written just before the instruction that
/// reads it. It holds the traced number from there to the end of the body, and Python's number
/// before and after. Another thread that reads the slot meanwhile gets the traced number.

namespace tracehost::python {

/// A number as a 0-dim tensor on the CPU: int64 or float64. Undefined: `value` is no exact int in
/// the range of int64 nor an exact float. Calls no op, so nothing is recorded.
at::Tensor tensor_of_python_number(PyObject *value);

/// The slots that one trace takes as inputs. Requires for every member: GIL held, on the thread
/// that traces.
class NumberSlots {
public:
  /// `history`: null takes none. It outlives this.
  NumberSlots(Graph &graph, const TraceHistory *history) : graph_(graph), history_(history) {}

  /// A slot was found. If its number is an input: the tensor that the graph gets, borrowed; else
  /// null.
  PyObject *take(int container, int slot);
  /// After take(), once the tensor's path is known: a traced number is put into the slot.
  void put();
  /// A slot was found that holds a tuple of which some numbers are inputs: the body will find
  /// another tuple there. Between the two all elements are recorded. False: it is left as it is.
  bool begin_tuple(int container, int slot);
  void end_tuple(int container, int slot);
  /// Whether a number of a slot is an input: earlier calls have had others.
  bool any() const { return !taken_.empty(); }
  /// Whether take() has returned it.
  bool gives(PyObject *tensor) const;
  /// How many slots take() has taken.
  std::size_t count() const { return taken_.size(); }
  /// A block that is no part of the graph has been undone, and Python's numbers are in slots that
  /// were taken in it: all but the first `since`. What the body reads from now on is traced again.
  void put_again(std::size_t since);
  /// The body has ended: what it has not stored to holds Python's number again.
  void restore();

private:
  struct Taken {
    int container, slot;
    Owned tensor; ///< the graph's input; null: a tuple with some
    Owned number; ///< what the body reads
  };
  bool takes(int container) const;
  void write_number(const Taken &taken);

  PyObject *tuple_ = nullptr; ///< between begin_tuple() and end_tuple()
  Graph &graph_;
  const TraceHistory *history_;
  std::vector<Taken> taken_;
};

} // namespace tracehost::python
