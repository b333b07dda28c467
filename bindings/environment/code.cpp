#include "environment/code.h"

#include "environment/gil.h"

#include <opcode.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tracehost::python {

namespace {

using Words = std::span<const std::string_view>;

bool one_of(std::string_view text, Words words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}
bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return one_of(text, Words(words.begin(), words.size()));
}

/// One instruction with its full argument; caches are skipped by the reader.
struct Instruction {
  int opcode;
  int argument;
};

/// The instructions of a code object as compiled, without what the interpreter specialised.
std::vector<Instruction> instructions(PyCodeObject *code) {
  std::vector<Instruction> result;
  Owned bytes(PyCode_GetCode(code));
  if (!bytes) {
    PyErr_Clear();
    return result;
  }
  const auto *unit = reinterpret_cast<const unsigned char *>(PyBytes_AS_STRING(bytes.get()));
  const Py_ssize_t size = PyBytes_GET_SIZE(bytes.get());
  result.reserve(size / 2);
  int extended = 0;
  for (Py_ssize_t at = 0; at + 1 < size; at += 2) {
    const int opcode = unit[at], argument = unit[at + 1] | extended << 8;
    extended = opcode == EXTENDED_ARG ? argument : 0;
    if (opcode != EXTENDED_ARG && opcode != CACHE)
      result.push_back({opcode, argument});
  }
  return result;
}

/// Whether the call of `getattr` or its kin that starts after instruction `load` has a constant
/// second argument. Follows the stack's depth in straight code; in doubt: no.
bool constant_name(const std::vector<Instruction> &list, std::size_t load, PyObject *consts) {
  int depth = 0;        // above what loading the function left
  int starts_third = 0; // instructions that began with both arguments on the stack
  bool constant = false;
  for (std::size_t at = load + 1; at < list.size() && at < load + 200; ++at) {
    const auto [opcode, argument] = list[at];
#ifdef PRECALL
    if (opcode == PRECALL)
      continue;
#endif
#ifdef PUSH_NULL
    if (opcode == PUSH_NULL && at == load + 1)
      continue;
#endif
    if (opcode == CALL && depth == argument)
      return constant && (argument == 2 ? starts_third == 0 : starts_third == 1);
    if (opcode == LOAD_CONST && depth == 1) {
      constant = PyUnicode_CheckExact(PyTuple_GET_ITEM(consts, argument));
      starts_third = 0;
    } else if (depth == 1) {
      constant = false; // another expression, or a step of the first
    } else if (depth == 2) {
      ++starts_third;
    }
    int effect = PyCompile_OpcodeStackEffectWithJump(opcode, argument, 0);
#ifdef PRECALL
    if (opcode == CALL)
      effect = -argument - 1; // in 3.11 the effect is shared out between PRECALL and CALL
#endif
    if (effect == PY_INVALID_STACK_EFFECT ||
        PyCompile_OpcodeStackEffectWithJump(opcode, argument, 1) != effect)
      if (opcode != CALL)
        return false;
    depth += effect;
    if (depth < 0)
      return false;
  }
  return false;
}

void add_strings(PyObject *constant, std::vector<PyObject *> &names) {
  if (PyUnicode_CheckExact(constant) && PyUnicode_IsIdentifier(constant) == 1)
    names.push_back(constant);
  else if (PyTuple_CheckExact(constant))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      add_strings(PyTuple_GET_ITEM(constant, i), names);
}

} // namespace

CodeNames names_of(PyCodeObject *code) {
  CodeNames names;
  const std::vector<Instruction> list = instructions(code);
  PyObject *table = code->co_names;
  bool constants = false;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const auto [opcode, argument] = list[at];
    int index = argument;
    switch (opcode) {
    case LOAD_GLOBAL:
      index = argument >> 1;
      [[fallthrough]];
    case LOAD_NAME:
#ifdef LOAD_FROM_DICT_OR_GLOBALS // from 3.12 on: a type parameter's bound, in a class
    case LOAD_FROM_DICT_OR_GLOBALS:
#endif
    case STORE_GLOBAL:
    case DELETE_GLOBAL: {
      PyObject *name = PyTuple_GET_ITEM(table, index);
      names.globals.push_back(name);
      const std::string_view text = utf8(name);
      if (one_of(text, {"getattr", "hasattr", "setattr", "delattr"})) {
        constants = true;
        names.any_attribute |= !constant_name(list, at, code->co_consts);
      } else if (text == "vars") {
        names.any_attribute = true;
      } else if (one_of(text, {"attrgetter", "methodcaller"})) {
        constants = true;
      }
      break;
    }
    case IMPORT_NAME:
      names.imports.push_back(PyTuple_GET_ITEM(table, index));
      break;
    case MATCH_CLASS:
      constants = true;
      break;
    default:
      break;
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(table); ++i) {
    const std::string_view text = utf8(PyTuple_GET_ITEM(table, i));
    names.any_attribute |= text == "__dict__";
    constants |= one_of(text, {"attrgetter", "__getattribute__", "__getattr__", "__setattr__",
                               "get_parameter", "get_buffer", "get_submodule"});
  }
  if (constants)
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i)
      add_strings(PyTuple_GET_ITEM(code->co_consts, i), names.attributes);
  return names;
}

std::vector<PyObject *> module_hooks_of(PyCodeObject *code) {
  std::vector<PyObject *> names;
  const std::string_view of = utf8(code->co_name);
  if (of == "_call_impl" || of == "inner")
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
      if (std::string_view(utf8(PyTuple_GET_ITEM(code->co_names, i))).starts_with("_global_"))
        names.push_back(PyTuple_GET_ITEM(code->co_names, i));
  return names;
}

bool reads_any_attribute(PyCodeObject *code) {
  std::string_view file = utf8(code->co_filename);
  file.remove_prefix(file.rfind('/') + 1);
  if (!one_of(file, {"dataclasses.py", "copy.py", "copyreg.py"}))
    return false;
  return one_of(utf8(code->co_name), {"_asdict_inner", "_astuple_inner", "asdict", "astuple",
                                      "replace", "_replace", "copy", "deepcopy", "_reconstruct"});
}

// ---- stores -------------------------------------------------------------------------------------

namespace {

/// Methods and functions by which a dict or list is changed, or an attribute set by a computed
/// name.
constexpr std::string_view kMutators[] = {
    "append",      "extend",     "insert",      "remove",      "pop",     "popitem",
    "clear",       "update",     "add",         "setdefault",  "sort",    "reverse",
    "move_to_end", "appendleft", "__setitem__", "__delitem__", "__ior__", "__iadd__"};
constexpr std::string_view kSetters[] = {
    "setattr",         "delattr",    "__setattr__",     "__delattr__",
    "__dict__",        "vars",       "register_buffer", "register_parameter",
    "register_module", "add_module", "__setstate__",    "load_state_dict",
    "_apply"};
constexpr std::string_view kNamespaces[] = {"globals", "exec"};

bool names_any(PyCodeObject *code, Words words) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    if (one_of(utf8(PyTuple_GET_ITEM(code->co_names, i)), words))
      return true;
  return false;
}

enum class Match { no, generic, exact };

/// How well one disassembled instruction fits as the store.
Match fits(Store kind, PyObject *key, std::string_view opcode, PyObject *argument,
           std::string_view text) {
  const auto named = [&](std::initializer_list<std::string_view> opcodes) {
    return one_of(opcode, opcodes) && key && argument && PyUnicode_Check(argument) &&
           PyUnicode_Check(key) && PyUnicode_Compare(argument, key) == 0;
  };
  const bool names_it =
      one_of(opcode, {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"});
  switch (kind) {
  case Store::attribute:
    if (named({"STORE_ATTR", "DELETE_ATTR"}))
      return Match::exact;
    return names_it && one_of(text, kSetters) ? Match::generic : Match::no;
  case Store::global:
    if (named({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME", "STORE_ATTR",
               "DELETE_ATTR"}))
      return Match::exact;
    return names_it && (one_of(text, kNamespaces) || one_of(text, kSetters)) ? Match::generic
                                                                             : Match::no;
  case Store::cell:
    if (named({"STORE_DEREF", "DELETE_DEREF"}))
      return Match::exact;
    return names_it && text == "cell_contents" ? Match::generic : Match::no;
  case Store::element:
    if (named({"STORE_ATTR", "DELETE_ATTR"})) // an nn.Module's parameter, buffer or child
      return Match::exact;
    if (one_of(opcode, {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}))
      return Match::exact;
    if (opcode == "BINARY_OP" && text.size() > 1 && text.back() == '=')
      return Match::generic;
    return names_it && (one_of(text, kMutators) || one_of(text, kSetters)) ? Match::generic
                                                                           : Match::no;
  case Store::other:
    return names_it && one_of(text, {"__defaults__", "__kwdefaults__", "setattr"}) ? Match::generic
                                                                                   : Match::no;
  }
  return Match::no;
}

bool is_installed(PyCodeObject *code) {
  const std::string_view file = utf8(code->co_filename);
  return file.find("/site-packages/") != file.npos || file.find("/dist-packages/") != file.npos ||
         file.find("/lib/python3") != file.npos || file.rfind("<frozen", 0) == 0;
}

} // namespace

bool find_store(std::span<PyCodeObject *const> ran, Store kind, PyObject *key, Site &where) {
  const KeepError keep;
  Owned dis(PyImport_ImportModule("dis"));
  int best = 0; // user's exact 4, user's generic 3, library's exact 2, library's generic 1
  for (PyCodeObject *code : ran) {
    const bool library = is_installed(code);
    if (best >= (library ? 2 : 4))
      continue;
    // Only code that names the slot, or a way to store to anything, is worth disassembling.
    if (kind == Store::attribute || kind == Store::global) {
      const int named = key ? PySequence_Contains(code->co_names, key) : 0;
      if (named != 1 && !names_any(code, kSetters) && !names_any(code, kNamespaces))
        continue;
    }
    Owned list(dis ? PyObject_CallMethod(dis.get(), "Bytecode", "O", code) : nullptr);
    Owned iterator(list ? PyObject_GetIter(list.get()) : nullptr);
    if (!iterator)
      break;
    int line = code->co_firstlineno;
    while (Owned item{PyIter_Next(iterator.get())}) {
      Owned opname(PyObject_GetAttrString(item.get(), "opname"));
      Owned argval(PyObject_GetAttrString(item.get(), "argval"));
      Owned argrepr(PyObject_GetAttrString(item.get(), "argrepr"));
      Owned positions(PyObject_GetAttrString(item.get(), "positions"));
      Owned number(positions ? PyObject_GetAttrString(positions.get(), "lineno") : nullptr);
      if (number && PyLong_Check(number.get()))
        line = static_cast<int>(PyLong_AsLong(number.get()));
      const bool text_is_name = argval && PyUnicode_Check(argval.get());
      const Match match = fits(kind, key, utf8(opname.get()), argval.get(),
                               utf8(text_is_name ? argval.get() : argrepr.get()));
      const int rank = match == Match::no ? 0 : (match == Match::exact) + 1 + (library ? 0 : 2);
      if (rank > best) {
        best = rank;
        where = {utf8(code->co_filename), line};
      }
      PyErr_Clear();
    }
    PyErr_Clear();
  }
  PyErr_Clear();
  return best > 0;
}

} // namespace tracehost::python
