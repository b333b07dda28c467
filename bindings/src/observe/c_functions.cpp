#include "observe/c_functions.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/lazy.h"
#include "base/object.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <unordered_map>
#include <utility>

namespace tracehost::python {

namespace {

struct Row {
  std::string_view module;
  Effect effect;
  std::string_view names; ///< with a space between; empty: all others of the module
};

constexpr Row kFunctions[] = {
    {"builtins", Effect::nothing,
     "isinstance issubclass id callable type super object property classmethod staticmethod slice "
     "range weakref weakproxy breakpoint locals exit quit copyright credits license help cell "
     "method function traceback frame code mappingproxy types.SimpleNamespace"},
    {"builtins", Effect::shows, "print"},
    {"builtins", Effect::length, "len bool"},
    {"builtins", Effect::elements,
     "iter reversed aiter anext enumerate zip map filter list tuple set frozenset dict sum any all "
     "next"},
    {"builtins", Effect::attribute, "getattr hasattr"},
    {"builtins", Effect::attributes, "vars dir"},
    {"builtins", Effect::store_attribute, "setattr delattr"},
    {"builtins", Effect::globals, "globals"},
    {"builtins", Effect::outside, "open input"},
    {"builtins", Effect::nothing, "exec eval __build_class__"}, // their code is observed
    {"builtins", Effect::contents, ""},
    {"sys", Effect::nothing,
     "_getframe _getframemodulename intern exc_info exception audit displayhook is_finalizing "
     "getswitchinterval setrecursionlimit settrace setprofile gettrace getprofile exit"},
    {"sys", Effect::process_state, "getrecursionlimit getdefaultencoding"},
    {"time", Effect::nothing, "sleep"},
    {"time", Effect::contents, "gmtime mktime strptime"},
    {"time", Effect::outside, ""},
    {"posix", Effect::process_state, "getpid getppid getcwd cpu_count"},
    {"posix", Effect::nothing, "fspath _exit"},
    {"posix", Effect::outside, ""},
    {"_thread", Effect::process_state, "get_ident get_native_id"},
    {"_thread", Effect::nothing, "allocate_lock lock RLock _set_sentinel daemon_threads_allowed"},
    {"_thread", Effect::threads,
     "start_new_thread start_new start_joinable_thread _start_joinable_thread"},
    {"_queue", Effect::nothing, "SimpleQueue"},
    {"_abc", Effect::instance_of, "_abc_instancecheck"},
    {"_abc", Effect::subclass_of, "_abc_subclasscheck"},
    {"_abc", Effect::nothing, ""},
    {"_bisect", Effect::contents, "bisect bisect_left bisect_right"},
    {"_bisect", Effect::moves, ""},
    {"_heapq", Effect::moves, ""},
    {"_operator", Effect::store_item, "setitem"},
    {"_operator", Effect::removes, "delitem"},
    {"_operator", Effect::adds,
     "iadd iconcat iand ior ixor imul imatmul isub ifloordiv ilshift imod ipow irshift itruediv"},
    {"_operator", Effect::length, "truth not_"},
    {"_operator", Effect::nothing, "is_ is_not attrgetter itemgetter methodcaller"},
    {"_operator", Effect::contents, ""},
    {"operator", Effect::nothing, ""},
    {"collections", Effect::elements, "deque OrderedDict Counter defaultdict"},
    {"_collections", Effect::moves, "_count_elements"},
    {"_functools", Effect::elements, "reduce"},
    {"_functools", Effect::nothing, ""},
    {"functools", Effect::nothing, ""},
    {"itertools", Effect::elements, ""},
    {"weakref", Effect::nothing, ""},
    {"_weakref", Effect::nothing, "proxy"},
    {"_warnings", Effect::nothing, ""},
    {"_signal", Effect::outside, ""},
    {"_imp", Effect::nothing, ""},
    {"_io", Effect::outside, "open open_code FileIO"},
    {"_io", Effect::contents, ""},
    {"gc", Effect::nothing, "collect enable disable isenabled freeze unfreeze"},
    {"_contextvars", Effect::nothing, "ContextVar"},
    {"faulthandler", Effect::nothing, ""},
};

/// Modules whose functions read all that their arguments hold, and nothing else; parts of them too.
constexpr std::string_view kPure[] = {
    "math",    "cmath",    "_struct",  "_json",     "_pickle",     "_csv",        "_string",
    "_sre",    "re",       "_codecs",  "_datetime", "datetime",    "_zoneinfo",   "_decimal",
    "decimal", "_typing",  "typing",   "types",     "_stat",       "_statistics", "_ast",
    "_opcode", "_blake2",  "_md5",     "_sha1",     "_sha2",       "_sha256",     "_sha512",
    "_sha3",   "_hashlib", "binascii", "zlib",      "unicodedata", "errno",       "marshal",
    "array",   "numpy",    "_random",  "fractions", "_locale",     "uuid",        "copy",
    "enum"};

/// Methods of dicts, lists, sets and deques.
constexpr Row kOfContainers[] = {
    {"", Effect::item, "get __getitem__ __contains__"},
    {"", Effect::store_item, "__setitem__ setdefault"},
    {"", Effect::adds, "append extend update add __ior__ __iadd__"},
    {"", Effect::removes, "remove pop discard __delitem__"},
    {"", Effect::moves,
     "appendleft popleft extendleft rotate insert popitem clear sort reverse move_to_end __imul__ "
     "__isub__ __iand__ __ixor__ difference_update intersection_update "
     "symmetric_difference_update"},
    {"", Effect::elements, "items keys values copy __iter__ __len__"},
    {"", Effect::contents, ""},
};

/// Methods of anything else.
constexpr Row kOfObjects[] = {
    {"", Effect::store_attribute, "__setattr__ __delattr__"},
    {"", Effect::attribute, "__getattribute__"},
    {"", Effect::attributes, "__reduce_ex__ __reduce__ __getstate__ __dir__"},
    {"", Effect::process_state, "initial_seed locked is_set device_count"},
};

/// Functions that are not pure, though their effect on what guards compare is nothing or a read.
/// An empty list: all of the module.
struct Impure {
  std::string_view module, names;
  Purity purity = Purity::once;
};
constexpr Impure kImpure[] = {
    {"builtins", "exec breakpoint exit quit copyright credits license help"},
    {"sys", "audit displayhook exit setrecursionlimit setswitchinterval settrace setprofile"},
    {"time", "sleep tzset"},
    {"posix", "_exit"},
    {"_thread", "interrupt_main exit exit_thread"},
    {"_warnings", "warn warn_explicit"},
    {"gc", "collect enable disable freeze unfreeze"},
    {"faulthandler", ""},
    {"_pickle", "dump Pickler"},
    {"_locale", "setlocale bindtextdomain textdomain"},
    {"marshal", "dump"},
    {"_imp", "create_dynamic exec_dynamic"},
    {"torch._C", "PyTorchFileWriter PyTorchFileReader import_ir_module _set_worker_pids "
                 "_multiprocessing_init _initExtension _crash_if_csrc_asan"},
};
/// Methods of torch's objects that a branch of a graph can't have, but a graph can.
constexpr std::string_view kOfAutograd =
    "backward requires_grad_ retain_grad register_hook register_post_accumulate_grad_hook "
    "run_backward share_memory_ set_ manual_seed seed set_state set_offset _write_file set_data";

bool is_among(std::string_view name, std::string_view names) {
  for (const auto one : std::views::split(names, ' '))
    if (name == std::string_view(one.begin(), one.end()))
      return true;
  return false;
}

struct Table {
  std::unordered_map<std::string_view, Effect> names;
  Effect others = Effect::unknown;

  void add(const Row &row) {
    if (row.names.empty())
      others = row.effect;
    for (const auto name : std::views::split(row.names, ' '))
      names.emplace(std::string_view(name.begin(), name.end()), row.effect);
  }
  Effect find(std::string_view name) const {
    const auto found = names.find(name);
    return found == names.end() ? others : found->second;
  }
};

template <std::size_t N> Table table_of(const Row (&rows)[N]) {
  Table made;
  for (const Row &row : rows)
    made.add(row);
  return made;
}

const std::unordered_map<std::string_view, Table> &modules() {
  static constinit Lazy<std::unordered_map<std::string_view, Table>> made;
  return made([] {
    std::unordered_map<std::string_view, Table> tables;
    for (const Row &row : kFunctions)
      tables[row.module].add(row);
    return tables;
  });
}

using Switch = std::pair<std::string_view, Effect>;
constexpr Switch kSwitches[] = {{"unknown", Effect::unknown},
                                {"length", Effect::length},
                                {"elements", Effect::elements},
                                {"contents", Effect::contents},
                                {"attribute", Effect::attribute},
                                {"attributes", Effect::attributes},
                                {"item", Effect::item},
                                {"pieces", Effect::pieces},
                                {"globals", Effect::globals},
                                {"instance_of", Effect::instance_of},
                                {"subclass_of", Effect::subclass_of},
                                {"subclasses", Effect::subclasses},
                                {"process_state", Effect::process_state},
                                {"context", Effect::context},
                                {"threads", Effect::threads},
                                {"store_attribute", Effect::store_attribute},
                                {"store_item", Effect::store_item},
                                {"adds", Effect::adds},
                                {"removes", Effect::removes},
                                {"moves", Effect::moves},
                                {"changes", Effect::changes}};

std::uint32_t off = 0; ///< a bit for each Effect that is switched off

Effect switched(Effect effect) {
  return off >> static_cast<unsigned>(effect) & 1 ? Effect::nothing : effect;
}

/// `numpy.linalg` is a part of `numpy`.
bool is_part_of(std::string_view module, std::string_view whole) {
  return module.starts_with(whole) &&
         (module.size() == whole.size() || module[whole.size()] == '.');
}

bool is_pure(std::string_view module) {
  return std::any_of(std::begin(kPure), std::end(kPure),
                     [module](std::string_view p) { return is_part_of(module, p); });
}

Effect found_of(std::string_view module, std::string_view name) {
  if (const auto found = modules().find(module); found != modules().end())
    return found->second.find(name);
  if (is_part_of(module, "torch")) // numbers of the process; else, what ops read
    return name.starts_with("get_num_") || name.ends_with("getDevice") ||
                   name.ends_with("getDeviceCount")
               ? Effect::process_state
               : Effect::contents;
  if (is_part_of(module, "tracehost") || module == "_tracehost")
    return Effect::changes;
  return is_pure(module) ? Effect::contents : Effect::unknown;
}

/// The C type from which a class has its methods of C code.
std::string_view c_type_of(PyTypeObject *type) {
  while (type->tp_base && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
         std::string_view(type->tp_name).find('.') == std::string_view::npos)
    type = type->tp_base;
  return type->tp_name;
}

Effect found_of_method(PyObject *self, std::string_view name) {
  static constinit Lazy<Table> containers, objects;
  const auto &of_objects = objects([] { return table_of(kOfObjects); });
  if (name == "__setattr__" || name == "__delattr__" || name == "__getattribute__")
    return of_objects.find(name);
  if (PyDict_Check(self) || PyList_Check(self) || PyAnySet_CheckExact(self) || is_deque(self))
    return containers([] { return table_of(kOfContainers); }).find(name);
  const bool of_class = PyType_Check(self);
  if (of_class && name == "__subclasses__")
    return Effect::subclasses;
  if (of_class && (name == "now" || name == "today" || name == "utcnow"))
    return Effect::outside;
  if (PyUnicode_Check(self) && (name == "format" || name == "format_map"))
    return Effect::pieces;
  if (PyContextVar_CheckExact(self) && (name == "get" || name == "set" || name == "reset"))
    return Effect::context;
  if (const Effect found = of_objects.find(name); found != Effect::unknown)
    return found;
  const std::string_view type =
      c_type_of(of_class ? reinterpret_cast<PyTypeObject *>(self) : Py_TYPE(self));
  if (type == "_queue.SimpleQueue" || type == "_thread._ThreadHandle")
    return Effect::threads;
  const auto dot = type.rfind('.');
  if (dot == std::string_view::npos) // of builtins
    return Effect::changes;
  const std::string_view module = type.substr(0, dot);
  if (is_part_of(module, "torch"))
    return is_tensor(self) ? Effect::contents : Effect::changes;
  return is_pure(module) || module == "functools" || module == "collections" || module == "_io" ||
                 module == "_thread" || module == "itertools"
             ? Effect::changes
             : Effect::unknown;
}

/// Of calls whose row says no more than what they read and store.
Purity purity_of(Effect effect) {
  switch (effect) {
  case Effect::unknown:
  case Effect::shows:
  case Effect::outside:
  case Effect::threads:
    return Purity::once;
  case Effect::context:
    return Purity::repeated;
  case Effect::elements:
    return Purity::takes;
  case Effect::changes:
    return Purity::of_objects;
  default:
    return Purity::pure;
  }
}

} // namespace

Purity purity_of(Effect effect, std::string_view module, std::string_view name) {
  for (const Impure &row : kImpure)
    if (row.module == module && (row.names.empty() || is_among(name, row.names)))
      return row.purity;
  if (is_part_of(module, "torch"))
    return is_among(name, kOfAutograd) ? Purity::repeated : Purity::pure;
  if (is_part_of(module, "tracehost") || module == "_tracehost")
    return Purity::pure;
  return purity_of(effect);
}

Purity purity_of_method(Effect effect, PyObject *self, std::string_view name) {
  const std::string_view type =
      c_type_of(PyType_Check(self) ? reinterpret_cast<PyTypeObject *>(self) : Py_TYPE(self));
  if (is_part_of(type, "torch"))
    return is_among(name, kOfAutograd) ? Purity::repeated : Purity::pure;
  if (is_part_of(type, "tracehost") || is_part_of(type, "_tracehost"))
    return Purity::pure;
  if (effect == Effect::context)
    return name == "get" ? Purity::pure : Purity::repeated;
  if (type.starts_with("_thread.") && effect != Effect::process_state && name != "locked")
    return Purity::repeated;
  if (type.starts_with("_io."))
    return type == "_io.StringIO" || type == "_io.BytesIO" ? Purity::of_objects : Purity::once;
  return purity_of(effect);
}

Effect effect_of(std::string_view module, std::string_view name) {
  return switched(found_of(module, name));
}

Effect effect_of_method(PyObject *self, std::string_view name) {
  return switched(found_of_method(self, name));
}

std::vector<std::string> effects() {
  const auto names = std::views::keys(kSwitches);
  return {names.begin(), names.end()};
}

bool switch_effect(std::string_view name, bool on) {
  const auto *found = std::ranges::find(kSwitches, name, &Switch::first);
  if (found == std::end(kSwitches))
    return false;
  const auto bit = 1U << static_cast<unsigned>(found->second);
  off = on ? off & ~bit : off | bit;
  return true;
}

} // namespace tracehost::python
