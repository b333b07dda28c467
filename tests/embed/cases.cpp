// A C++ application that embeds Python: one case a process, `tracehost_embed_cases NAME`. Exit code
// 0: it passed.
#include <tracehost/embed.h>
#include <tracehost/tracehost.h>

#include <ATen/ATen.h>
#include <Python.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using tracehost::Function;
using tracehost::kw;

#define EXPECT(...)                                                                                \
  do {                                                                                             \
    if (!(__VA_ARGS__)) {                                                                          \
      std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " #__VA_ARGS__ << std::endl;          \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

template <class E, class F> std::string message_of(const F &f) {
  try {
    f();
  } catch (const E &e) {
    return e.what();
  }
  std::cerr << "nothing was thrown" << std::endl;
  std::exit(1);
}

Function import(const char *name) { return tracehost::embed::import("bodies.py", name); }

/// Whether `f` ends while another thread holds Python's lock.
void without_lock(const std::function<void()> &f) {
  const PyGILState_STATE held = PyGILState_Ensure();
  std::thread other(f);
  other.join(); // or the process hangs, and the test with it
  PyGILState_Release(held);
}

void a_call_traces_once_and_then_runs_without_python() {
  const Function scale = import("scale");
  const at::Tensor x = at::ones({2, 3});
  EXPECT(at::equal(scale(x, 3).tensor(), x * 3));
  EXPECT(scale.stats().traces == 1 && scale.stats().misses == 1);
  without_lock([&] { EXPECT(at::equal(scale(x + 1, 3).tensor(), (x + 1) * 3)); });
  EXPECT(scale.stats().hits == 1 && scale.stats().traces == 1);
  EXPECT(at::equal(scale(x, kw("by", 4)).tensor(), x * 4));
  EXPECT(at::equal(scale(x).tensor(), x * 2));
  EXPECT(scale.stats().traces == 3);
  EXPECT(scale.signatures().size() == 3);
}

void misses_of_several_threads_trace_once() {
  const Function scale = import("scale");
  const at::Tensor x = at::ones({2, 3});
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n)
        right += at::equal(scale(x + i, 3).tensor(), (x + i) * 3);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT(right == 160);
  EXPECT(scale.stats().traces == 1);
}

/// More signatures than the limit: a thread asks for the graphs while another evicts them.
void graphs_are_evicted_while_threads_ask() {
  const Function evicting = import("evicting");
  const at::Tensor x = at::ones({2});
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 40; ++n) {
        const int by = (7 * i + n) % 23;
        right += at::equal(evicting(x, by).tensor(), x * by);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT(right == 240);
}

void what_python_changes_is_seen_in_place_or_after_refresh() {
  const Function step = import("model.step");
  const Function fill = import("fill_weight"), turn = import("set_gain");
  const at::Tensor x = at::ones({3});
  EXPECT(at::equal(step(x).tensor(), x));
  fill(5.0);
  EXPECT(at::equal(step(x).tensor(), x * 5)); // the same memory
  turn(7);
  EXPECT(at::equal(step(x).tensor(), x * 5)); // as when Python was last asked
  step.refresh();
  EXPECT(at::equal(step(x).tensor(), x * 35));
  EXPECT(step.stats().traces == 2);
}

void structures_go_in_and_out() {
  const Function pack = import("pack");
  const at::Tensor x = at::ones({2});
  const tracehost::Map batch{{"image", x}, {"scale", 0.5}};
  for (int i = 0; i < 2; ++i) {
    const tracehost::Value result = pack(batch, std::vector<at::Tensor>{x, x + 1});
    EXPECT(at::equal(result["sum"].tensor(), x * 0.5 + x + x + 1));
    EXPECT(result["name"].string() == "packed" && result["count"].integer() == 2);
    const auto [first, second] = result["both"].to<std::tuple<at::Tensor, at::Tensor>>();
    EXPECT(at::equal(first, x) && at::equal(second, x + 1));
  }
  EXPECT(pack.stats().hits == 1);
}

void what_python_raises_is_a_cpp_exception() {
  const Function fails = import("fails");
  try {
    fails(at::ones({2}));
    EXPECT(false);
  } catch (const tracehost::PythonError &e) {
    EXPECT(e.type() == "ValueError");
    EXPECT(std::string(e.what()).starts_with("no such thing\nTraceback"));
    EXPECT(e.traceback().find("bodies.py") != std::string::npos);
  }
  EXPECT(message_of<tracehost::TraceError>([] {
           import("reads")(at::ones({2}));
         }).find("bodies.py:") != std::string::npos);
}

/// An Error and none of its kinds, whose text has no traceback.
std::string plain_error_of(const std::function<void()> &act) {
  try {
    act();
  } catch (const tracehost::PythonError &) {
    return "a PythonError";
  } catch (const tracehost::Error &e) {
    return std::string(e.what()).find("Traceback") == std::string::npos ? e.what() : "a traceback";
  }
  return "nothing was thrown";
}

void what_is_not_there_is_an_error_that_says_so() {
  EXPECT(plain_error_of([] { import("plain"); }) ==
         "'plain' of bodies.py is a function, no Function: decorate it with @tracehost.function");
  EXPECT(plain_error_of([] { import("nowhere"); }) ==
         "bodies.py has no 'nowhere': there is no 'nowhere'");
  EXPECT(plain_error_of([] { import("model.nowhere"); }) ==
         "bodies.py has no 'model.nowhere': there is no 'nowhere'");
  EXPECT(plain_error_of([] {
           tracehost::embed::import("none.py", "f");
         }).starts_with("there is no file none.py, neither in /"));
  EXPECT(plain_error_of([] { tracehost::embed::import("none", "f"); }) ==
         "there is no module none on sys.path: No module named 'none'");
  EXPECT(plain_error_of([] {
           tracehost::embed::import("bodies.none", "f");
         }).starts_with("there is no module bodies.none on sys.path: No module named "));
  try { // what a file imports is its own matter
    tracehost::embed::import("imports_none.py", "f");
    EXPECT(false);
  } catch (const tracehost::PythonError &e) {
    EXPECT(e.type() == "ModuleNotFoundError");
  }
}

tracehost::SignatureError rejected(const std::function<void()> &act) {
  try {
    act();
  } catch (const tracehost::SignatureError &e) {
    return e;
  }
  std::cerr << "was served" << std::endl;
  std::exit(1);
}

void signature_errors_have_their_parts() {
  const Function declared = import("declared");
  const at::Tensor x = at::ones({3, 4}), one = at::ones({});
  const tracehost::Map options{{"scale", one}};
  const char *nearest = "(x: float32[None, 4], options: {'scale': float32[]}, by=2)";
  for (int i = 0; i < 2; ++i) { // before there is a graph, and after
    auto e = rejected([&] { declared(at::ones({3, 5}), options); });
    EXPECT(e.parameter() == "x");
    EXPECT(e.got() == "float32[3, 5]");
    EXPECT(e.expected() == "TensorSpec(shape=(None, 4), dtype=torch.float32, name=None)");
    EXPECT(e.nearest() == nearest);
    EXPECT(e.what() == "argument 'x': expected " + e.expected() + ", got float32[3, 5]");
    e = rejected([&] { declared(x, tracehost::Map{{"scale", "big"}}); });
    EXPECT(e.parameter() == "options['scale']" && !e.expected().empty() && !e.got().empty());
    e = rejected([&] { declared(x); });
    EXPECT(e.parameter() == "options" && e.expected() == "a value" && e.got() == "nothing");
    declared(x, options);
  }
  const Function scale = import("scale");
  auto e = rejected([&] { scale(); });
  EXPECT(std::string(e.what()) == "scale() missing a required argument: 'x'");
  EXPECT(e.parameter() == "x" && e.expected() == "a value" && e.got() == "nothing");
  EXPECT(e.nearest() == "(x, by=2)");
  e = rejected([&] { scale(kw("x", 1.0), 2); });
  EXPECT(std::string(e.what()) == "scale() got an argument without a name after 'x'");
}

void a_raise_is_a_python_error_in_python_and_in_a_graph() {
  const Function root = import("root");
  for (int i = 0; i < 2; ++i)
    try {
      root(at::full({2}, -1.0));
      EXPECT(false);
    } catch (const tracehost::PythonError &e) {
      EXPECT(e.type() == "bodies.BadRoot");
      EXPECT(e.message() == "no real root");
      EXPECT(at::equal(root(at::ones({2})).tensor(), at::ones({2})));
    }
}

void maps_become_dataclasses_by_annotations() {
  const Function measure = import("measure");
  const at::Tensor x = at::ones({2});
  const auto point = [&](double by, double scale) {
    return tracehost::Map{{"x", x * by}, {"scale", scale}};
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT(at::equal(measure(tracehost::Map{{"left", point(1, 2)}, {"right", point(5, 1)}},
                             tracehost::List{point(3, 1), point(4, 2)})
                         .tensor(),
                     x * (2 + 5 + 3 + 8)));
    EXPECT(at::equal(measure(tracehost::Map{{"left", point(1, 2)}, {"right", std::nullopt}},
                             tracehost::List{}, kw("mode", "Mode.MINUS"))
                         .tensor(),
                     x * -2));
  }
  EXPECT(measure.stats().traces == 2 && measure.stats().hits == 2);
  // A default is the class's.
  EXPECT(at::equal(
      measure(tracehost::Map{{"left", tracehost::Map{{"x", x}}}, {"right", {}}}, tracehost::List{})
          .tensor(),
      x));
  auto e = rejected([&] {
    measure(tracehost::Map{{"left", tracehost::Map{{"scale", 1.0}}}, {"right", {}}},
            tracehost::List{});
  });
  EXPECT(e.parameter() == "pair.left" && e.expected() == "the field 'x'");
  EXPECT(e.nearest() == "(pair, points, mode=<Mode.PLUS: 1>)");
  e = rejected([&] {
    measure(tracehost::Map{{"left", point(1, 1)}, {"right", {}}}, tracehost::List{}, "Mode.OTHER");
  });
  EXPECT(e.parameter() == "mode" && e.expected() == "one of Mode.PLUS, Mode.MINUS");
}

void calls_from_cpp_are_in_the_figures() {
  const Function pick = import("pick");
  const at::Tensor table = at::ones({3, 2});
  const auto at_index = [](std::int64_t i) { return at::full({1}, i, at::kLong); };
  for (int i = 0; i < 5; ++i)
    pick(table, at_index(i % 3));
  EXPECT(!message_of<std::exception>([&] { pick(table, at_index(7)); }).empty());
  rejected([&] { pick(table); });
  const std::string metrics = tracehost::metrics_text();
  for (const char *result :
       {"\"hit\"} 4\n", "\"trace\"} 1\n", "\"failed\"} 1\n", "\"rejected\"} 1\n"})
    EXPECT(metrics.find(std::string("{function=\"pick (bodies.py:83)\",result=") + result) !=
               std::string::npos ||
           (std::cerr << metrics, false));
  const std::string report = tracehost::embed::report();
  EXPECT(report.find("pick (bodies.py:83)      7     4       1") != std::string::npos ||
         (std::cerr << report, false));
  EXPECT(pick.stats().hits == 4 && pick.stats().failures == 1 && pick.stats().traces == 1);
}

const std::string kEnded =
    "count: interrupt() has ended the call; the ops that ran may have written to tensors or drawn "
    "random numbers";

void interrupt_ends_a_first_call() {
  std::signal(SIGALRM, [](int) { tracehost::interrupt(); });
  const Function count = import("count");
  const at::Tensor turns = at::full({}, 0);
  alarm(2); // a trace takes milliseconds
  EXPECT(message_of<tracehost::Interrupted>(
             [&] { count(turns, at::full({}, std::int64_t{1} << 62)); }) == kEnded);
  EXPECT(turns.item<std::int64_t>() > 3);
  EXPECT(count(at::full({}, 0), at::full({}, 3)).tensor().item<std::int64_t>() == 6);
}

void a_call_has_a_deadline_and_can_be_stopped() {
  using Clock = std::chrono::steady_clock;
  using tracehost::ErrorCode;
  const Function count = import("count");
  const at::Tensor never = at::full({}, std::int64_t{1} << 62);
  const auto ended = [](const auto &act) {
    try {
      act();
    } catch (const tracehost::Interrupted &e) {
      return e.code();
    }
    return ErrorCode::other;
  };
  for (int i = 0; i < 2; ++i) { // a first call, and one that a graph serves
    const auto limited = count.with_deadline(Clock::now() + std::chrono::seconds(2));
    EXPECT(ended([&] { limited(at::full({}, 0), never); }) == ErrorCode::deadline);
  }
  const auto late = count.with_deadline(Clock::now());
  const at::Tensor turns = at::full({}, 0);
  EXPECT(ended([&] { late(turns, never); }) == ErrorCode::deadline);
  EXPECT(turns.item<std::int64_t>() == 0);
  std::stop_source gone;
  auto result = count.with_stop(gone.get_token()).async(at::full({}, 0), never);
  gone.request_stop();
  EXPECT(ended([&] { result.get(); }) == ErrorCode::stopped);
  EXPECT(count(at::full({}, 0), at::full({}, 3)).tensor().item<std::int64_t>() == 6);
}

void interrupt_ends_a_graph_between_two_ops() {
  std::signal(SIGALRM, [](int) { tracehost::interrupt(); });
  const Function count = import("count");
  const at::Tensor few = at::full({}, 3), never = at::full({}, std::int64_t{1} << 62);
  EXPECT(count(at::full({}, 0), few).tensor().item<std::int64_t>() == 6);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor turns = at::full({}, 0);
    alarm(1);
    EXPECT(message_of<tracehost::Interrupted>([&] { count(turns, never); }) == kEnded);
    EXPECT(turns.item<std::int64_t>() > 3); // what was done is done
    EXPECT(count(at::full({}, 0), few).tensor().item<std::int64_t>() == 6);
  }
  EXPECT(count.stats().traces == 1);
  // On another thread, and not what begins later.
  std::atomic<bool> ended{false};
  std::thread other([&] {
    EXPECT(message_of<tracehost::Interrupted>([&] { count(at::full({}, 0), never); }) == kEnded);
    ended = true;
  });
  while (!ended)
    tracehost::interrupt();
  other.join();
  EXPECT(count(at::full({}, 0), few).tensor().item<std::int64_t>() == 6);
}

void graphs_that_call_python_run_in_it() {
  const Function calls = import("calls_python");
  for (int i = 0; i < 3; ++i)
    EXPECT(at::equal(calls(at::ones({2}) * i).tensor(), at::ones({2}) * i + 1));
  EXPECT(calls.stats().traces == 1 && calls.stats().hits == 0 && calls.stats().misses == 3);
}

volatile std::sig_atomic_t interrupts = 0;

void ctrl_c_stays_the_applications() {
  std::signal(SIGINT, [](int) { interrupts = interrupts + 1; });
  const Function scale = import("scale");
  scale(at::ones({2}), 3);
  std::raise(SIGINT);
  EXPECT(interrupts == 1);
}

void after_stop_only_what_needs_no_python_runs() {
  const Function scale = import("scale");
  const at::Tensor x = at::ones({2});
  scale(x, 3);
  tracehost::embed::stop();
  EXPECT(at::equal(scale(x, 3).tensor(), x * 3));
  EXPECT(message_of<tracehost::Error>([&] { scale(x, 4); }) ==
         "this call needs Python, which was stopped (tracehost::embed::stop)");
  EXPECT(message_of<tracehost::Error>([] { import("scale"); }) ==
         "this call needs Python, which was stopped (tracehost::embed::stop)");
  tracehost::embed::stop();
}

void an_application_that_embeds_python_itself() {
  Py_InitializeEx(0);
  EXPECT(PyRun_SimpleString("import os, site, sys\n"
                            "sys.path.insert(0, os.environ['BODIES'])\n"
                            "site.addsitedir(os.environ['PACKAGES'])") == 0);
  const Function scale = [] {
    PyThreadState *own = PyEval_SaveThread();
    Function found = import("scale");
    PyEval_RestoreThread(own);
    return found;
  }();
  const at::Tensor x = at::ones({2});
  PyThreadState *own = PyEval_SaveThread();
  EXPECT(at::equal(scale(x, 3).tensor(), x * 3));
  PyEval_RestoreThread(own);
  EXPECT(Py_FinalizeEx() == 0);
  EXPECT(message_of<tracehost::Error>([&] { scale(x, 4); }).find("was stopped") !=
         std::string::npos);
  EXPECT(message_of<tracehost::Error>([] { import("scale"); }).find("was stopped") !=
         std::string::npos);
}

/// Threads that call without end, each at least once before main() returns.
void call_for_ever(const std::function<void(std::int64_t)> &call) {
  static std::atomic<int> calls{0};
  static std::function<void(std::int64_t)> *kept = new auto(call);
  for (int i = 0; i < 4; ++i)
    std::thread([i] {
      for (std::int64_t n = 0;; ++n, ++calls)
        (*kept)(1'000'000 * i + n);
    }).detach();
  while (calls < 20)
    std::this_thread::yield();
}

void the_process_ends_while_threads_run_graphs() {
  const Function scale = import("scale");
  scale(at::ones({2}), 3);
  call_for_ever([scale](std::int64_t) { scale(at::ones({2}), 3); });
}

void the_process_ends_while_threads_trace() {
  const Function scale = import("scale");
  call_for_ever([scale](std::int64_t n) { scale(at::ones({2}), n); });
}

/// The call of a thread that is joined when statics are destroyed raises: the process ends.
void a_static_that_joins_its_thread() {
  struct Server {
    std::atomic<bool> ends{false};
    std::thread thread;
    ~Server() {
      ends = true;
      thread.join();
      std::puts("joined");
    }
  };
  static Server server;
  static const Function scale = import("scale");
  scale(at::ones({2}), 3);
  server.thread = std::thread([] {
    try {
      while (!server.ends)
        scale(at::ones({2}), 3);
    } catch (const tracehost::Error &e) { // where it has not ended by itself
      EXPECT(e.what() ==
             std::string("the process is ending: no call can start any more. Join the threads that "
                         "call before main() returns."));
    }
  });
}

void what_python_prints_is_there_without_stop() { import("prints")(at::ones({2})); }

void a_second_start_says_why_not() {
  const auto start = [](const char *python) {
    return plain_error_of([&] { tracehost::embed::start({.python = python ? python : ""}); });
  };
  const std::string first = start(nullptr);
  EXPECT(first.starts_with("tracehost could not be imported by the embedded Python (/"));
  EXPECT(
      first.ends_with("This Python runs now, and a process has one: name the environment that has "
                      "tracehost in the first start() of the process, "
                      "tracehost::embed::start({.python = ...}), or in TRACEHOST_PYTHON."));
  EXPECT(start(std::getenv("GOOD_PYTHON")) == first);
}

void a_second_start_finds_another_python() {
  EXPECT(plain_error_of([] {
           tracehost::embed::start({.python = "/none"});
         }).starts_with("no Python at '/none'"));
  tracehost::embed::start({.path = {std::getenv("BODIES")}});
  EXPECT(at::equal(import("scale")(at::ones({2}), 3).tensor(), at::ones({2}) * 3));
}

void the_report_names_causes() {
  const Function scale = import("scale");
  for (int n = 1; n < 4; ++n)
    scale(at::ones({n}), 3);
  const std::string report = tracehost::embed::report();
  EXPECT(report.find("scale") != std::string::npos);
  EXPECT(report.find("bodies.py") != std::string::npos);
}

const std::map<std::string, void (*)()> kCases = {
#define CASE(name)                                                                                 \
  { #name, name }
    CASE(a_call_traces_once_and_then_runs_without_python),
    CASE(misses_of_several_threads_trace_once),
    CASE(graphs_are_evicted_while_threads_ask),
    CASE(what_python_changes_is_seen_in_place_or_after_refresh),
    CASE(structures_go_in_and_out),
    CASE(what_python_raises_is_a_cpp_exception),
    CASE(graphs_that_call_python_run_in_it),
    CASE(ctrl_c_stays_the_applications),
    CASE(after_stop_only_what_needs_no_python_runs),
    CASE(an_application_that_embeds_python_itself),
    CASE(what_is_not_there_is_an_error_that_says_so),
    CASE(signature_errors_have_their_parts),
    CASE(a_raise_is_a_python_error_in_python_and_in_a_graph),
    CASE(maps_become_dataclasses_by_annotations),
    CASE(calls_from_cpp_are_in_the_figures),
    CASE(interrupt_ends_a_first_call),
    CASE(a_call_has_a_deadline_and_can_be_stopped),
    CASE(interrupt_ends_a_graph_between_two_ops),
    CASE(the_process_ends_while_threads_run_graphs),
    CASE(the_process_ends_while_threads_trace),
    CASE(a_static_that_joins_its_thread),
    CASE(what_python_prints_is_there_without_stop),
    CASE(a_second_start_says_why_not),
    CASE(a_second_start_finds_another_python),
    CASE(the_report_names_causes),
};

} // namespace

/// `tracehost_embed_cases FOLDER NAME`: FOLDER has bodies.py. Without a name: the names.
int main(int argc, char **argv) {
  if (argc == 1)
    for (const auto &[name, run] : kCases)
      std::cout << name << "\n";
  if (argc != 3)
    return argc == 1 ? 0 : 2;
  const std::string name = argv[2];
  setenv("BODIES", argv[1], 1);
  if (name != "an_application_that_embeds_python_itself" && !name.starts_with("a_second_start"))
    tracehost::embed::start({.path = {argv[1]}});
  kCases.at(name)();
  std::cout << "passed" << std::endl;
}
