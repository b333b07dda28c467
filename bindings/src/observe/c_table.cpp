#include "observe/c_table.h"

namespace tracehost::python {

namespace {

constexpr Row kFunctions[] = {
    {"builtins", Effect::nothing,
     "id super object property classmethod staticmethod slice range weakref weakproxy "
     "locals cell method function traceback frame code mappingproxy types.SimpleNamespace"},
    {"builtins", Effect::nothing, "breakpoint exit quit copyright credits license help",
     Purity::once},
    {"builtins", Effect::nothing, "exec", Purity::once}, // its code is observed
    {"builtins", Effect::nothing, "eval __build_class__"},
    {"builtins", Effect::classes, "isinstance issubclass type callable"},
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
    {"builtins", Effect::contents, ""},
    {"sys", Effect::nothing,
     "_getframe _getframemodulename intern exc_info exception is_finalizing getswitchinterval "
     "gettrace getprofile"},
    {"sys", Effect::nothing,
     "audit displayhook exit setrecursionlimit setswitchinterval settrace setprofile",
     Purity::once},
    {"sys", Effect::process_state, "getrecursionlimit getdefaultencoding"},
    {"time", Effect::nothing, "sleep", Purity::once},
    {"time", Effect::outside, "tzset", Purity::once},
    {"time", Effect::contents, "gmtime mktime strptime"},
    {"time", Effect::outside, ""},
    {"posix", Effect::process_state, "getpid getppid getcwd cpu_count"},
    {"posix", Effect::nothing, "fspath"},
    {"posix", Effect::nothing, "_exit", Purity::once},
    {"posix", Effect::changing, "urandom getrandom"},
    {"posix", Effect::outside, ""},
    {"_thread", Effect::process_state, "get_ident get_native_id"},
    {"_thread", Effect::nothing, "allocate_lock lock RLock _set_sentinel daemon_threads_allowed"},
    {"_thread", Effect::nothing, "interrupt_main exit exit_thread", Purity::once},
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
    {"_operator", Effect::length, "truth not_ length_hint"},
    {"_operator", Effect::nothing, "is_ is_not attrgetter itemgetter methodcaller"},
    {"_operator", Effect::item, "getitem contains"},
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
    {"_weakref", Effect::changing, "getweakrefcount getweakrefs"},
    {"_warnings", Effect::nothing, "warn warn_explicit", Purity::once},
    {"_warnings", Effect::nothing, ""},
    {"_signal", Effect::outside, ""},
    {"_imp", Effect::nothing, "create_dynamic exec_dynamic", Purity::once},
    {"_imp", Effect::nothing, ""},
    {"_io", Effect::outside, "open open_code FileIO"},
    {"_io", Effect::contents, ""},
    {"gc", Effect::nothing, "collect enable disable freeze unfreeze set_threshold set_debug",
     Purity::once},
    {"gc", Effect::process_state, "isenabled get_debug get_freeze_count"},
    {"gc", Effect::changing, ""},
    {"_contextvars", Effect::nothing, "ContextVar Context"},
    {"_contextvars", Effect::nothing, "copy_context"}, // asked for what it holds by its methods
    {"faulthandler", Effect::nothing, "", Purity::once},
    {"_pickle", Effect::pickled, "dumps"},
    {"_pickle", Effect::pickled, "dump Pickler", Purity::once},
    {"_locale", Effect::contents, "setlocale bindtextdomain textdomain", Purity::once},
    {"marshal", Effect::contents, "dump", Purity::once},
    {"_uuid", Effect::changing, ""},
    {"_tracemalloc", Effect::changing, ""},
};

/// Functions that only compute of what their arguments hold. The rest of `torch` is what ops read.
constexpr Row kPackages[] = {
    // A branch of a graph can't have these, but a graph can.
    {"torch", Effect::contents,
     "backward requires_grad_ retain_grad register_hook register_post_accumulate_grad_hook "
     "run_backward share_memory_ set_ manual_seed seed set_state set_offset _write_file set_data",
     Purity::repeated},
    {"torch._C", Effect::contents,
     "PyTorchFileWriter PyTorchFileReader import_ir_module _set_worker_pids _multiprocessing_init "
     "_initExtension _crash_if_csrc_asan",
     Purity::once},
    {"torch", Effect::process_state,
     "get_num_threads get_num_interop_threads _cuda_getDevice _cuda_getDeviceCount "
     "_xpu_getDevice _xpu_getDeviceCount _accelerator_getDevice _accelerator_deviceCount",
     Purity::pure},
    {"torch", Effect::setting,
     "is_anomaly_enabled is_anomaly_check_nan_enabled is_autocast_cache_enabled get_autocast_dtype "
     "get_autocast_cpu_dtype get_autocast_gpu_dtype _is_multithreading_enabled _get_warnAlways "
     "_get_accelerator _get_autograd_fallback_mode _get_backcompat_broadcast_warn "
     "_get_backcompat_keepdim_warn _get_blas_preferred_backend _get_cpu_capability "
     "_get_cpu_allow_fp16_reduced_precision_reduction _get_cublas_allow_fp16_accumulation "
     "_get_cublas_allow_bf16_reduced_precision_reduction _get_cublas_allow_tf32 "
     "_get_cublas_allow_fp16_reduced_precision_reduction _get_cudnn_allow_tf32 "
     "_get_cudnn_benchmark _get_cudnn_deterministic _get_cudnn_enabled _get_cudnn_sdp_enabled "
     "_get_deterministic_fill_uninitialized_memory _get_fa3_sdp_enabled _get_flash_sdp_enabled "
     "_get_float32_matmul_precision _get_fp32_precision_getter _get_graph_executor_optimize "
     "_get_linalg_preferred_backend _get_math_sdp_allow_fp16_bf16_reduction _get_math_sdp_enabled "
     "_get_mem_efficient_sdp_enabled _get_miopen_immediate _get_mkldnn_deterministic "
     "_get_mkldnn_enabled _get_nnpack_enabled _get_onednn_allow_tf32 _get_overrideable_sdp_enabled "
     "_get_qengine _get_thread_name _is_view_replay_enabled _is_grad_layout_enforcement_enabled",
     Purity::pure},
    {"torch", Effect::contents, "", Purity::pure},
    {"tracehost", Effect::changes, "", Purity::pure},
    {"_tracehost", Effect::changes, "", Purity::pure},
    {"math", Effect::contents, ""},
    {"cmath", Effect::contents, ""},
    {"_struct", Effect::contents, ""},
    {"_json", Effect::contents, ""},
    {"_pickle", Effect::contents, ""},
    {"_csv", Effect::contents, ""},
    {"_string", Effect::contents, ""},
    {"_sre", Effect::contents, ""},
    {"re", Effect::contents, ""},
    {"_codecs", Effect::contents, ""},
    {"_datetime", Effect::contents, ""},
    {"datetime", Effect::contents, ""},
    {"_zoneinfo", Effect::contents, ""},
    {"_decimal", Effect::contents, ""},
    {"decimal", Effect::contents, ""},
    {"_typing", Effect::contents, ""},
    {"typing", Effect::contents, ""},
    {"types", Effect::contents, ""},
    {"_stat", Effect::contents, ""},
    {"_statistics", Effect::contents, ""},
    {"_ast", Effect::contents, ""},
    {"_opcode", Effect::contents, ""},
    {"_blake2", Effect::contents, ""},
    {"_md5", Effect::contents, ""},
    {"_sha1", Effect::contents, ""},
    {"_sha2", Effect::contents, ""},
    {"_sha256", Effect::contents, ""},
    {"_sha512", Effect::contents, ""},
    {"_sha3", Effect::contents, ""},
    {"_hashlib", Effect::contents, ""},
    {"binascii", Effect::contents, ""},
    {"zlib", Effect::contents, ""},
    {"unicodedata", Effect::contents, ""},
    {"errno", Effect::contents, ""},
    {"marshal", Effect::contents, ""},
    {"array", Effect::contents, ""},
    {"numpy", Effect::contents, ""},
    {"_random", Effect::contents, ""},
    {"fractions", Effect::contents, ""},
    {"_locale", Effect::contents, ""},
    {"uuid", Effect::contents, ""},
    {"copy", Effect::contents, ""},
    {"enum", Effect::contents, ""},
};

constexpr Row kMethods[] = {
    {"list", Effect::item, "get __getitem__ __contains__"},
    {"list", Effect::store_item, "__setitem__ setdefault"},
    {"list", Effect::adds, "append extend update add __ior__ __iadd__"},
    {"list", Effect::removes, "remove pop discard __delitem__"},
    {"list", Effect::moves,
     "appendleft popleft extendleft rotate insert popitem clear sort reverse move_to_end __imul__ "
     "__isub__ __iand__ __ixor__ difference_update intersection_update "
     "symmetric_difference_update"},
    {"list", Effect::elements, "items keys values copy __iter__ __len__"},
    {"list", Effect::contents, ""},
    {"type", Effect::subclasses, "__subclasses__"},
    {"type", Effect::classes, "mro __instancecheck__ __subclasscheck__"},
    {"datetime.datetime", Effect::outside, "now today utcnow"},
    {"datetime.date", Effect::outside, "today"},
    {"str", Effect::pieces, "format format_map __format__ __mod__"},
    {"ContextVar", Effect::context, "get", Purity::pure},
    {"ContextVar", Effect::context, "set reset", Purity::repeated},
    {"Context", Effect::changing, "get __getitem__ __iter__ __contains__ keys values items copy"},
    {"functools._lru_cache_wrapper", Effect::changing, "cache_info"},
    {"functools._lru_cache_wrapper", Effect::changing, "cache_clear", Purity::once},
    {"functools._lru_cache_wrapper", Effect::nothing, "cache_parameters"},
    {"_queue.SimpleQueue", Effect::threads, ""},
    {"_thread._ThreadHandle", Effect::threads, ""},
    {"_thread", Effect::process_state, "locked _is_owned", Purity::pure},
    {"_thread", Effect::changes, "", Purity::repeated},
    {"_io.StringIO", Effect::changes, "", Purity::of_objects},
    {"_io.BytesIO", Effect::changes, "", Purity::of_objects},
    {"_io", Effect::changes, "", Purity::once},
    {"functools", Effect::changes, ""},
    {"collections", Effect::changes, ""},
    {"itertools", Effect::changes, ""},
    {"object", Effect::store_attribute, "__setattr__ __delattr__"},
    {"object", Effect::attribute, "__getattribute__"},
    {"object", Effect::attributes, "__reduce_ex__ __reduce__ __getstate__ __dir__"},
    {"object", Effect::process_state, "initial_seed locked is_set device_count"},
};

} // namespace

std::span<const Row> rows_of_functions() { return kFunctions; }
std::span<const Row> rows_of_packages() { return kPackages; }
std::span<const Row> rows_of_methods() { return kMethods; }

} // namespace tracehost::python
