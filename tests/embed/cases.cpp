// A C++ application that embeds Python: one case a process, `tracehost_embed_cases NAME`. Exit code
// 0: it passed.
#include <tracehost/embed.h>

#include <ATen/ATen.h>
#include <Python.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

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
  const Function scale = import("scale");
  EXPECT(message_of<tracehost::SignatureError>([&] { scale(); }) ==
         "scale() missing a required argument: 'x'");
  EXPECT(message_of<tracehost::SignatureError>([&] { scale(kw("x", 1.0), 2); }) ==
         "scale() got an argument without a name after 'x'");
  EXPECT(message_of<tracehost::Error>([] {
           import("plain");
         }).find("decorate it with @tracehost.function") != std::string::npos);
  EXPECT(message_of<tracehost::Error>([] {
           import("nowhere");
         }).find("bodies.py has no 'nowhere'") != std::string::npos);
  EXPECT(message_of<tracehost::Error>([] {
           tracehost::embed::import("none.py", "f");
         }).find("there is no file none.py") != std::string::npos);
  EXPECT(message_of<tracehost::TraceError>([] {
           import("reads")(at::ones({2}));
         }).find("bodies.py:") != std::string::npos);
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

void calls_while_the_process_ends() {
  static const Function *scale = new Function(import("scale"));
  (*scale)(at::ones({2}), 3);
  for (int i = 0; i < 4; ++i)
    std::thread([] {
      for (std::int64_t n = 0;; ++n)
        (*scale)(at::ones({2}), 3);
    }).detach();
  std::fflush(stdout);
  std::_Exit(0);
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
    CASE(what_python_changes_is_seen_in_place_or_after_refresh),
    CASE(structures_go_in_and_out),
    CASE(what_python_raises_is_a_cpp_exception),
    CASE(graphs_that_call_python_run_in_it),
    CASE(ctrl_c_stays_the_applications),
    CASE(after_stop_only_what_needs_no_python_runs),
    CASE(an_application_that_embeds_python_itself),
    CASE(calls_while_the_process_ends),
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
  if (name == "an_application_that_embeds_python_itself")
    setenv("BODIES", argv[1], 1);
  else
    tracehost::embed::start({.path = {argv[1]}});
  kCases.at(name)();
  std::cout << "passed" << std::endl;
}
