#include "base/instructions.h"

#include "base/forget_error.h"
#include "base/frame.h"
#include "base/lazy.h"
#include "base/object.h"

#include <algorithm>

namespace tracehost::python {

namespace {

class Decoder {
public:
  explicit Decoder(PyCodeObject *code) : code_(code) {}

  Instructions run() {
    const Owned bytes(PyCode_GetCode(code_)); // without what the interpreter specialised
    if (!bytes) {
      forget_error();
      return {};
    }
    units_ = reinterpret_cast<const unsigned char *>(PyBytes_AS_STRING(bytes.get()));
    count_ = static_cast<int>(PyBytes_GET_SIZE(bytes.get()) / 2);
    decode();
    seed_handlers();
    const bool generates = code_->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    reach(0, generates ? kGeneratorDepth : 0);
    while (!todo_.empty()) {
      const int at = todo_.back();
      todo_.pop_back();
      follow(at);
    }
    mark_caught();
    return std::move(found_);
  }

private:
  void decode() {
    found_.resize(count_);
    int extended = 0, start = -1, before = -1;
    for (int at = 0; at < count_;) {
      const int opcode = units_[2 * at];
      const int argument = units_[2 * at + 1] | extended;
      if (start < 0)
        start = at;
      if (opcode == table_.extended) {
        extended = argument << 8;
        ++at;
        continue;
      }
      Instruction instruction{argument, start, -1, static_cast<std::uint8_t>(opcode)};
      instruction.action = action_of(opcode, argument, before);
      instruction.named = (before >= 0 && before == table_.names) ||
                          instruction.action == Action::call_names ||
                          (instruction.action == Action::call_unpacked && argument & 1);
      before = opcode;
      for (int i = start; i <= at; ++i)
        found_[i] = instruction;
      at = next(at);
      extended = 0;
      start = -1;
    }
  }

  /// From 3.14 on `x[i]` is a binary operation, and `with` loads the methods and calls one.
  Action action_of(int opcode, int argument, int before) const {
    constexpr int kItem = 26, kEnter = 0; // NB_SUBSCR; SPECIAL___ENTER__
    const Action action = table_.action[opcode];
    if (opcode == table_.binary && argument == kItem)
      return Action::load_item;
    const bool is_entered_already = before == table_.special && action == Action::call;
    return is_entered_already || (opcode == table_.special && argument != kEnter) ? Action::none
                                                                                  : action;
  }

  /// The code unit after an instruction and its caches.
  int next(int at) const { return at + 1 + table_.caches[units_[2 * at]]; }

  int last_unit(int start) const {
    while (units_[2 * start] == table_.extended)
      ++start;
    return start;
  }

  void reach(int at, int depth) {
    if (at < 0 || at >= count_ || found_[at].start != at || found_[at].depth >= 0 || depth < 0)
      return;
    for (int i = at; i <= last_unit(at); ++i)
      found_[i].depth = static_cast<std::int16_t>(depth);
    todo_.push_back(at);
  }

  void follow(int start) {
    const int at = last_unit(start);
    const Instruction &i = found_[at];
    const int after = next(at);
    if (table_.jumps[i.opcode]) {
      const int effect = PyCompile_OpcodeStackEffectWithJump(i.opcode, i.argument, 1);
      if (effect != PY_INVALID_STACK_EFFECT)
        reach(table_.backwards[i.opcode] ? after - i.argument : after + i.argument,
              i.depth + effect);
    }
    if (table_.ends[i.opcode])
      return;
    const int effect = PyCompile_OpcodeStackEffectWithJump(i.opcode, i.argument, 0);
    if (effect != PY_INVALID_STACK_EFFECT)
      reach(after, i.depth + effect);
  }

  /// Entries of `co_exceptiontable`: start, length, target, depth * 2 + whether the instruction is
  /// pushed too; each a number of six bits a byte, the highest first.
  void seed_handlers() {
    PyObject *table = code_->co_exceptiontable;
    if (!table || !PyBytes_Check(table))
      return;
    const auto *at = reinterpret_cast<const unsigned char *>(PyBytes_AS_STRING(table));
    const auto *end = at + PyBytes_GET_SIZE(table);
    const auto number = [&] {
      int value = 0;
      while (at < end) {
        const unsigned char byte = *at++;
        value = value << 6 | (byte & 63);
        if (!(byte & 64))
          break;
      }
      return value;
    };
    while (at < end) {
      const int start = number(), length = number();
      const int target = number(), depth = number();
      reach(target, (depth >> 1) + (depth & 1) + 1);
      handlers_.push_back({start, length, target, depth >> 1});
    }
  }

  /// `except` compares the exception, or takes any. `finally` and `with` raise it again.
  bool is_except(int target) const {
    int seen = 0;
    for (int at = target; at < count_; at = next(at), ++seen) {
      const int opcode = units_[2 * at];
      if (opcode == table_.check_match || opcode == table_.check_group ||
          (seen == 1 && opcode == table_.pop_top))
        return true;
      if (opcode == table_.reraise || opcode == table_.with_start)
        return false;
    }
    return false;
  }

  auto around(int unit) const {
    return std::find_if(handlers_.begin(), handlers_.end(), [unit](const Handler &h) {
      return h.start <= unit && unit < h.start + h.length;
    });
  }

  /// Others than `except`, `finally` and `with` do not keep the exception.
  bool is_finally(int target) const {
    if (target >= count_ || units_[2 * target] != table_.push_exception || is_except(target))
      return false;
    for (int at = target; at < count_; at = next(at)) {
      const int opcode = units_[2 * at];
      if (opcode == table_.reraise || opcode == table_.with_start)
        return opcode == table_.reraise;
    }
    return false;
  }

  /// Whether a handler around `unit` is such a one. One that is no `except` is itself within the
  /// range of the one around it.
  template <typename Is> bool has_handler(int unit, const Is &is) const {
    for (std::size_t depth = 0; depth <= handlers_.size(); ++depth) {
      const auto handler = around(unit);
      if (handler == handlers_.end())
        return false;
      if (is(handler->target))
        return true;
      unit = handler->target;
    }
    return false;
  }

  void mark_caught() {
    for (int unit = 0; !handlers_.empty() && unit < count_; ++unit) {
      found_[unit].caught = has_handler(unit, [this](int at) { return is_except(at); });
      found_[unit].cleaned = has_handler(unit, [this](int at) { return is_finally(at); });
      if (const auto handler = around(unit); handler != handlers_.end())
        found_[unit].kept = static_cast<std::int16_t>(handler->depth);
    }
  }

  struct Handler {
    int start, length, target; ///< code units
    int depth;                 ///< of the stack
  };

  PyCodeObject *code_;
  std::vector<Handler> handlers_;
  const Opcodes &table_ = opcodes();
  const unsigned char *units_ = nullptr;
  int count_ = 0;
  Instructions found_;
  std::vector<int> todo_;
};

void forget(void *instructions) { delete static_cast<Instructions *>(instructions); }

#if PY_VERSION_HEX >= 0x030C0000
Py_ssize_t request_index() { return PyUnstable_Eval_RequestCodeExtraIndex(forget); }
constexpr auto get_extra = PyUnstable_Code_GetExtra;
constexpr auto set_extra = PyUnstable_Code_SetExtra;
#else
Py_ssize_t request_index() { return _PyEval_RequestCodeExtraIndex(forget); }
constexpr auto get_extra = _PyCode_GetExtra;
constexpr auto set_extra = _PyCode_SetExtra;
#endif

} // namespace

const Instructions *instructions_of(PyCodeObject *code) {
  static constinit Lazy<Py_ssize_t> requested;
  const Py_ssize_t index = requested(request_index);
  auto *object = reinterpret_cast<PyObject *>(code);
  void *kept = nullptr;
  const KeepError keep;
  if (index < 0 || get_extra(object, index, &kept) != 0) {
    forget_error();
    return nullptr;
  }
  if (!kept) {
    auto *made = new Instructions(Decoder(code).run());
    if (made->empty() || set_extra(object, index, made) != 0) {
      forget_error();
      delete made;
      return nullptr;
    }
    kept = made;
  }
  return static_cast<const Instructions *>(kept);
}

} // namespace tracehost::python
