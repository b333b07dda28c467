#include "report/message.h"

#include "support/records.h"

#include <gmock/gmock.h>

namespace tracehost::report {
namespace {
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using Origin = TraceRecord::Origin;

const Site loop{"/home/me/train.py", 40};

Difference shape(std::string path, int dimension, int rank, long before, long after) {
  return {Cause::shape,           std::move(path),       dimension,
          std::to_string(before), std::to_string(after), rank};
}
Difference other(Cause cause, std::string path, std::string before, std::string after) {
  return {cause, std::move(path), -1, std::move(before), std::move(after)};
}
TraceRecord initial() {
  TraceRecord record;
  record.call = loop;
  record.origin = Origin::initial;
  return record;
}
TraceRecord retrace(std::vector<Difference> differences, Site call = loop) {
  TraceRecord record;
  record.differences = std::move(differences);
  record.call = std::move(call);
  return record;
}

std::string told_by(const std::vector<TraceRecord> &window, const Identity &step,
                    std::size_t signatures = 0) {
  return message({.function = step,
                  .traces = window.size(),
                  .calls = window.size(),
                  .nanoseconds = 41'300'000,
                  .known = window,
                  .signatures = signatures});
}
std::string told(const std::vector<TraceRecord> &window, std::size_t signatures = 0) {
  return told_by(window, {.name = "step", .definition = {"/home/me/train.py", 12}}, signatures);
}

/// A window of five: a first trace and four with this difference, the value moving on each time.
std::string told_of(Cause cause, const std::string &path, const std::vector<std::string> &values) {
  std::vector<TraceRecord> window = {initial()};
  for (std::size_t i = 0; i < 4; ++i)
    window.push_back(
        retrace({other(cause, path, values[i % values.size()], values[(i + 1) % values.size()])}));
  return told(window);
}

TEST(Message, NamesCauseCostAndRemedyOfAChangingSize) {
  EXPECT_EQ(
      told({initial(), retrace({shape("x", 1, 2, 12, 15)}), retrace({shape("x", 1, 2, 15, 17)}),
            retrace({shape("x", 1, 2, 17, 20)}), retrace({shape("x", 1, 2, 20, 31)})}),
      R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   argument 'x', dimension 1, took 5 values (12, 15, 17, 20, 31), from train.py:40
  fix   pad to the largest size: x = torch.nn.functional.pad(x, (0, 31 - x.shape[1]))   would save 4 of 5 traces)");
}

TEST(Message, OffersATensorInPlaceOfAPythonNumber) {
  EXPECT_EQ(told_of(Cause::value, "lr", {"0.1", "0.2", "0.3", "0.4", "0.5"}),
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   argument 'lr' took 5 values (0.1, 0.2, 0.3, 0.4, 0.5), from train.py:40
  fix   pass torch.tensor(0.5) for 'lr' (or read it from a tensor): a tensor's value is not part of the signature   would save 4 of 5 traces)");
}

TEST(Message, WarnsThatATensorIsNoSize) {
  EXPECT_THAT(
      told_of(Cause::value, "n", {"1", "2", "3", "4", "5"}),
      HasSubstr("pass torch.tensor(5) for 'n' (or read it from a tensor): a tensor's value is "
                "not part of the signature (not for a size or a count)   would save 4 of 5"));
  EXPECT_THAT(told_of(Cause::value, "n", {"0.0", "inf"}), Not(HasSubstr("torch.tensor(inf)")));
}

TEST(Message, HasOneLineForArgumentsThatChangeHandInHand) {
  const auto batch = [](long from, long to) {
    return retrace({shape("x", 0, 2, from, to), shape("y", 0, 1, from, to)});
  };
  EXPECT_EQ(told({initial(), batch(64, 5), batch(5, 64), batch(64, 5), batch(5, 64)}),
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   arguments 'x' and 'y', dimension 0, took 2 values (64, 5), from train.py:40
  fix   drop the odd last batch, DataLoader(..., drop_last=True), or pad to the largest size: x = torch.nn.functional.pad(x, (0, 0, 0, 64 - x.shape[0])); y = torch.nn.functional.pad(y, (0, 64 - y.shape[0]))   would save 4 of 5 traces)");
}

TEST(Message, PadsAllDimensionsOfAnArgumentTogether) {
  const auto image = [](long h, long w) {
    return retrace({shape("x", 1, 4, h, h + 1), shape("x", 3, 4, w, w + 2)});
  };
  EXPECT_THAT(told({initial(), image(1, 1), image(2, 3), image(3, 5), image(4, 7)}),
              EndsWith("  fix   pad to the largest size: x = torch.nn.functional.pad(x, "
                       "(0, 9 - x.shape[3], 0, 0, 0, 5 - x.shape[1]))   would save 4 of 5 traces"));
}

TEST(Message, PrintsOnlyRemediesThatSaveTraces) {
  // A string changes with the number at each trace: the tensor alone would save none.
  std::vector<TraceRecord> window = {initial()};
  for (int i = 0; i < 4; ++i)
    window.push_back(retrace({other(Cause::value, "lr", std::to_string(i), std::to_string(i + 1)),
                              other(Cause::value, "tag", "'a'", "'b'")}));
  const std::string text = told(window);
  EXPECT_THAT(text, Not(HasSubstr("fix")));
  EXPECT_THAT(text,
              HasSubstr("\n  see   'tag' at train.py:40: each value is a graph of its own; pass "
                        "few of them, or make a Function for each"));
}

TEST(Message, SaysWhichRemediesHelpOnlyTogether) {
  std::vector<TraceRecord> window = {initial()};
  for (int i = 0; i < 4; ++i)
    window.push_back(retrace({other(Cause::value, "lr", std::to_string(i), std::to_string(i + 1)),
                              other(Cause::dtype, "x", "float32", "float64")}));
  const std::string text = told(window);
  EXPECT_THAT(text,
              HasSubstr("with the other fixes, would save 4 of 5 traces\n  fix   x = "
                        "x.to(torch.float32) before the call   with the other fixes, would save "
                        "4 of 5 traces"));
}

TEST(Message, ReplaysEachRemedyForItself) {
  const auto lr = [](const char *a, const char *b) { return other(Cause::value, "lr", a, b); };
  EXPECT_EQ(told({initial(), retrace({lr("0.1", "0.2")}), retrace({shape("x", 0, 2, 64, 5)}),
                  retrace({lr("0.2", "0.3")}, {"eval.py", 7}), retrace({lr("0.3", "0.4")})}),
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   argument 'lr' took 4 values (0.1, 0.2, 0.3, 0.4), from train.py:40 and eval.py:7
  why   argument 'x', dimension 0, took 2 values (64, 5), from train.py:40
  fix   pass torch.tensor(0.4) for 'lr' (or read it from a tensor): a tensor's value is not part of the signature   would save 3 of 5 traces
  fix   drop the odd last batch, DataLoader(..., drop_last=True), or pad to the largest size: x = torch.nn.functional.pad(x, (0, 0, 0, 64 - x.shape[0]))   would save 1 of 5 traces)");
}

TEST(Message, ShowsThreeCausesAndCountsTheOthers) {
  std::vector<TraceRecord> window = {initial()};
  for (const char *path : {"a", "b", "c", "d"})
    window.push_back(retrace({other(Cause::value, path, "1", "2")}));
  EXPECT_THAT(told(window), HasSubstr("argument 'c' took 2 values (1, 2), from train.py:40\n"
                                      "        and 1 more cause\n  fix"));
  window.push_back(retrace({other(Cause::value, "e", "1", "2")}));
  EXPECT_THAT(told(window), HasSubstr("and 2 more causes"));
}

TEST(Message, ShowsEightValuesAndTwoCallSites) {
  std::vector<TraceRecord> window = {initial()};
  for (int i = 0; i < 9; ++i)
    window.push_back(retrace({shape("x", 0, 1, i, i + 1)}, {"a.py", 1 + i % 3}));
  EXPECT_THAT(told(window),
              HasSubstr("took 10 values (0, 1, 2, 3, 4, 5, 6, 7, ...), from a.py:1 and a.py:2\n"));
}

TEST(Message, QuotesPathsAsPythonDoes) {
  EXPECT_THAT(
      told_of(Cause::dtype, "batch['image']", {"float32", "float64"}),
      HasSubstr("argument \"batch['image']\" took 2 dtypes (float32, float64), from train.py:40\n"
                "  fix   batch['image'] = batch['image'].to(torch.float32) before the call   "));
}

TEST(Message, NamesADecoratorThatIsAppliedInALoop) {
  std::vector<TraceRecord> window = {initial()};
  for (int i = 0; i < 4; ++i) {
    window.push_back(initial());
    window.back().origin = Origin::again;
    window.back().seen = true;
  }
  EXPECT_EQ(told(window),
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   tracehost.function was applied again 4 times to step (train.py:12), each time with an empty cache, from train.py:40
  fix   apply @tracehost.function once, above the loop, to step (train.py:12), and call what it returns   would save 4 of 5 traces)");
  for (auto &record : window)
    record.seen = false; // each Function was called with arguments that no other had seen
  EXPECT_THAT(told(window),
              EndsWith("\n  see   train.py:12: apply the decorator once, above the loop; "
                       "the calls differ in their arguments too"));
}

TEST(Message, NamesTheLimitWhereEvictedSpecializationsAreTracedAgain) {
  std::vector<TraceRecord> window;
  for (int i = 0; i < 5; ++i) {
    window.push_back(retrace({shape("x", 0, 2, i, i + 1)}));
    window.back().evicted = true;
  }
  const std::string text = told(window, 70);
  EXPECT_THAT(text,
              HasSubstr("  why   a specialization that would have served had been evicted 5 times "
                        "(limit=64), from train.py:40\n  why   argument 'x', dimension 0"));
  EXPECT_THAT(text,
              HasSubstr("  fix   raise the limit: @tracehost.function(limit=128)   would save 5 of "
                        "5 traces\n  fix   pad to the largest size"));
}

TEST(Message, NeverLacksACause) {
  std::vector<TraceRecord> window = {initial(), retrace({}), retrace({}), retrace({}), retrace({})};
  EXPECT_THAT(told(window),
              HasSubstr("\n  why   an argument compared unequal and then equal again 4 "
                        "times: see its __eq__, from train.py:40\n  see   "));
  for (std::size_t i = 1; i < 5; ++i)
    window[i].origin = Origin::emptied;
  EXPECT_THAT(told(window),
              HasSubstr("\n  why   the cache was empty again 4 times: cleared, or the "
                        "objects that it was traced with are gone"));
  for (std::size_t i = 1; i < 5; ++i)
    window[i].was_once = "the body prints";
  EXPECT_THAT(told(window),
              HasSubstr("\n  why   the trace before served its own call alone 4 times (the body "
                        "prints), from train.py:40\n  see   what the line above names: do that "
                        "outside of the function"));
}

TEST(Message, KnowsARemedyForEachCauseThatHasOne) {
  const std::string saves = "   would save 4 of 5 traces";
  const auto fixes = [&](Cause cause, const char *path, const std::vector<std::string> &values,
                         const std::string &fix) {
    EXPECT_THAT(told_of(cause, path, values), EndsWith("\n  fix   " + fix + saves));
  };
  fixes(Cause::device, "x", {"cpu", "cuda:0"}, "x = x.to('cuda:0') before the call");
  fixes(Cause::layout, "x", {"strides [3, 1]", "strides [1, 2]"},
        "x = x.contiguous() before the call");
  fixes(Cause::layout, "x", {"strided", "sparse"}, "x = x.to_dense() before the call");
  fixes(Cause::layout, "x", {"strided", "strided, inference"},
        "x = x.clone() outside torch.inference_mode()");
  fixes(Cause::requires_grad, "x", {"False", "True"},
        "x = x.detach() before all calls that need no gradient, or before none");
  fixes(Cause::subclass, "x", {"Tensor", "Masked"},
        "x = x.as_subclass(torch.Tensor) before the call");
  fixes(Cause::alias, "y", {"a tensor of its own", "the same tensor as x"},
        "pass y.clone() where it is the same tensor as another argument");
  fixes(
      Cause::type, "mask", {"None", "Tensor"},
      "pass a tensor for 'mask' always (of zeros or ones in place of None), or make two Functions, "
      "one of them without it");
  fixes(
      Cause::type, "n", {"int", "float"},
      "pass torch.tensor(float(n)) for 'n': one dtype, and its value is not part of the signature");
  fixes(Cause::type, "xs", {"list", "tuple"}, "pass a tuple always: tuple(xs)");
  fixes(Cause::object, "cfg", {"<Config object>"},
        "create 'cfg' once, outside the loop, and pass the same object");
  fixes(Cause::context, "grad mode", {"on", "off"},
        "call step under one grad mode: torch.no_grad() around all its calls or around none");
  fixes(Cause::context, "default dtype", {"float32", "float64"},
        "keep the default dtype as it is for all calls to step");
  fixes(Cause::guarded, "self.training", {"True", "False"},
        "call self.eval() or self.train() once, not between the calls");
  fixes(Cause::guarded, "self.scale", {"0.1", "0.2"},
        "keep a tensor in 'self.scale', torch.tensor(0.2), and write to it with fill_: a tensor's "
        "value "
        "is not part of the signature");
  fixes(Cause::guarded, "MODE (net.py)", {"'a'", "'b'"},
        "set 'MODE (net.py)' once, before the first call");
  fixes(Cause::capture, "self.w", {"float32[2]", "float32[3]"},
        "keep shape, dtype and device of 'self.w'; copy_ into it to change its values");
}

TEST(Message, SaysWhatToLookAtWhereNoRemedyIsKnown) {
  EXPECT_THAT(
      told_of(Cause::value, "flag", {"True", "False"}),
      EndsWith("\n  see   'flag' at train.py:40: each value is a graph of its own; pass few of "
               "them, or make a Function for each"));
  EXPECT_THAT(
      told_of(Cause::rank, "x", {"[2]", "[2, 1]"}),
      EndsWith("\n  see   'x' at train.py:40: each number of dimensions is a graph of its own; "
               "reshape or unsqueeze it"));
  EXPECT_THAT(
      told_of(Cause::structure, "xs", {"list of 1", "list of 2"}),
      EndsWith("\n  see   'xs' at train.py:40: each length or set of keys is a graph of its own; "
               "pass a fixed one, or one stacked tensor"));
}

TEST(Message, SaysHowEachCauseChanged) {
  EXPECT_THAT(told_of(Cause::object, "cfg", {"<Config object>"}),
              HasSubstr("argument 'cfg' was another object 4 times (<Config object>), from"));
  EXPECT_THAT(told_of(Cause::context, "grad mode", {"on", "off"}),
              HasSubstr("  why   grad mode took 2 values (on, off), from"));
  EXPECT_THAT(
      told_of(Cause::guarded, "self.training", {"True", "False"}),
      HasSubstr("  why   'self.training', which the body reads, took 2 values (True, False), "));
  EXPECT_THAT(
      told_of(Cause::capture, "self.w", {"float32[2]", "float32[3]"}),
      HasSubstr("  why   captured tensor 'self.w' took 2 forms (float32[2], float32[3]), from"));
  EXPECT_THAT(told_of(Cause::value, "s", {"'aaa...'"}),
              HasSubstr("  why   argument 's' changed ('aaa...'), from"));
}

/// Records of real calls, so that decorators can be replayed.
std::string told_calls(const std::vector<Signature> &calls,
                       const Identity &function = {.name = "step",
                                                   .definition = {"/home/me/train.py", 12}}) {
  return told_by(test::traces(calls), function);
}

Signature sizes(std::int64_t length) {
  return test::call({{"x", test::sized({32, length})}, {"n", test::sized({}, 1, at::kLong)}});
}

TEST(Message, OffersDecoratorsForSizesThatVary) {
  EXPECT_EQ(told_calls({sizes(12), sizes(15), sizes(17), sizes(20), sizes(31)}),
            R"(5 out of the last 5 calls to step (train.py:12) triggered retracing: 41 ms so far.
  why   argument 'x', dimension 1, took 5 values (12, 15, 17, 20, 31), from train.py:40
  fix   @tracehost.function(reduce_retracing=True)   would save 3 of 5 traces
  fix   @tracehost.function(input_signature=[TensorSpec([32, None], torch.float32), TensorSpec([], torch.int64)])   would save 4 of 5 traces)");
}

TEST(Message, OffersNoDecoratorThatIsInForce) {
  const std::vector<Signature> calls = {sizes(12), sizes(15), sizes(17), sizes(20), sizes(31)};
  Identity reduces{.name = "step", .definition = {"train.py", 12}};
  reduces.reduces = true;
  EXPECT_THAT(told_calls(calls, reduces), Not(HasSubstr("reduce_retracing")));
  EXPECT_THAT(told_calls(calls, reduces), HasSubstr("input_signature"));
  Identity declared = reduces;
  declared.declared = true;
  EXPECT_THAT(told_calls(calls, declared), Not(HasSubstr("@tracehost.function(")));
  EXPECT_THAT(told_calls(calls, declared), HasSubstr("pad to the largest size"));
}

TEST(Message, OffersNoSignatureWhereAPythonValueHasNoDefault) {
  std::vector<Signature> calls;
  for (int n = 1; n <= 5; ++n)
    calls.push_back(test::call({{"x", test::sized({n})}, {"mode", test::string("sum")}}));
  EXPECT_THAT(told_calls(calls),
              EndsWith("\n  fix   @tracehost.function(reduce_retracing=True)   would save 3 of 5 "
                       "traces"));
}

TEST(Message, OffersASignatureForSizesAndNumbersThatVaryTogether) {
  std::vector<Signature> calls;
  for (int n = 1; n <= 5; ++n)
    calls.push_back(test::call({{"x", test::sized({n})}, {"n", test::integer(n)}}));
  EXPECT_THAT(told_calls(calls),
              EndsWith("\n  fix   @tracehost.function(input_signature=[TensorSpec([None], "
                       "torch.float32), TensorSpec([], torch.int64)])   would save 4 of 5 traces"));
}

TEST(Message, SaysWhyASizeStaysExactAndOffersPadding) {
  std::vector<TraceRecord> records = test::traces({sizes(12), sizes(15), sizes(17), sizes(20)});
  for (std::size_t i = 1; i < records.size(); ++i)
    records[i].specialized = {{"x", 1, "int() of the size", {"/home/me/train.py", 13}}};
  Identity reduces{.name = "step", .definition = {"train.py", 12}};
  reduces.reduces = true;
  EXPECT_THAT(
      told_by(records, reduces),
      HasSubstr("from train.py:40\n  why   dimension 1 of 'x' stays exact: int() of the size at "
                "train.py:13\n  fix   pad to the largest size: x = "));
}

TEST(Message, SaysWhereSizesCompareDifferently) {
  EXPECT_THAT(
      told({initial(),
            retrace({other(Cause::condition, "net.py:7", "x.shape[0] > 4", "x.shape[0] <= 4")})}),
      HasSubstr("\n  why   sizes compare differently at net.py:7: x.shape[0] > 4, then x.shape[0] "
                "<= 4, from train.py:40\n  see   net.py:7: a comparison of sizes; each of its "
                "outcomes is a graph of its own"));
}

TEST(Message, NeverShowsAnySizeAsOneThatAnArgumentTook) {
  Difference any = shape("x", 0, 1, 12, 15);
  any.after = "None";
  EXPECT_THAT(told({initial(), retrace({any}), retrace({shape("x", 0, 1, 12, 15)})}),
              HasSubstr("took 2 values (12, 15), from"));
}

TEST(Message, NamesNoDecoratorThatItCannotReplay) {
  for (const Cause cause : {Cause::shape, Cause::value, Cause::rank, Cause::dtype}) {
    const std::string text = told_of(cause, "x", {"1", "2", "3"});
    EXPECT_THAT(text, Not(HasSubstr("input_signature")));
    EXPECT_THAT(text, Not(HasSubstr("reduce_retracing")));
  }
}

TEST(Message, DoesNotClaimWhatItHasNotRecorded) {
  std::vector<TraceRecord> window = {initial()};
  for (int i = 0; i < 4; ++i) {
    window.push_back(
        retrace({other(Cause::value, "lr", std::to_string(i), std::to_string(i + 1))}));
    window.back().complete = false;
  }
  EXPECT_THAT(told(window), Not(HasSubstr("would save")));
}

TEST(Duration, IsShort) {
  EXPECT_EQ(duration(400'000), "0.4 ms");
  EXPECT_EQ(duration(41'300'000), "41 ms");
  EXPECT_EQ(duration(12'340'000'000), "12.3 s");
}

} // namespace
} // namespace tracehost::report
