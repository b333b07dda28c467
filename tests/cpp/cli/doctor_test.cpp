// What `tracehost doctor` says of installations that are broken in one way each.
#include "cli/doctor.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

namespace tracehost::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// An installation in which all is well, on disk as far as a check looks there.
class DoctorTest : public testing::Test {
protected:
  void SetUp() override {
    const auto name = testing::UnitTest::GetInstance()->current_test_info()->name();
    prefix = fs::path(testing::TempDir()) / "doctor" / name;
    fs::create_directories(prefix / "bin");
    std::ofstream(prefix / "bin" / "tracehost-python") << "";
    environment = {prefix, prefix / "bin" / "tracehost-python", "the test",
                   interpreter::loaded_python_version()};
    found.site_packages = prefix / "site-packages";
    found.torch = "2.15.0+cu132";
    found.built = {{"version", version()},
                   {"python", interpreter::loaded_python_version()},
                   {"torch", "2.15.0"}};
    found.module = true;
  }

  static std::string version() {
    const auto text = version_lines({});
    const auto start = text.find(' ') + 1;
    return text.substr(start, text.find('\n') - start);
  }

  Finding worst() const {
    const auto findings = check(environment, found);
    return *std::ranges::max_element(findings, {}, &Finding::verdict);
  }

  fs::path prefix;
  interpreter::Environment environment;
  Installation found;
};

TEST_F(DoctorTest, AllWell) { EXPECT_EQ(worst().verdict, Verdict::ok) << worst().what; }

TEST_F(DoctorTest, NoTorch) {
  found.torch.clear();
  EXPECT_EQ(worst().verdict, Verdict::fail);
  EXPECT_THAT(worst().what, HasSubstr("no torch in"));
  EXPECT_EQ(worst().fix, "pip install torch==2.15.0");
}

TEST_F(DoctorTest, TorchOutsideTheWindow) {
  for (const char *version : {"2.9.1", "2.10.0", "2.16.0", "3.0.0"}) {
    found.torch = version;
    EXPECT_EQ(worst().verdict, Verdict::fail) << version;
    EXPECT_THAT(worst().what, HasSubstr("outside the supported 2.11 to 2.15")) << version;
  }
}

TEST_F(DoctorTest, AnotherTorchThanBuiltFor) {
  found.torch = "2.11.0";
  EXPECT_EQ(worst().verdict, Verdict::fail);
  EXPECT_THAT(worst().what, HasSubstr("built for torch 2.15.0"));
}

TEST_F(DoctorTest, APatchReleaseOfTorchIsFine) {
  found.torch = "2.15.1";
  EXPECT_EQ(worst().verdict, Verdict::ok) << worst().what;
}

TEST_F(DoctorTest, PackageOfAnotherVersion) {
  found.built["version"] = "0.0.1";
  EXPECT_EQ(worst().verdict, Verdict::fail);
  EXPECT_THAT(worst().what, HasSubstr("package 0.0.1, but this binary is " + version()));
}

TEST_F(DoctorTest, PackageMissing) {
  found.built.clear();
  EXPECT_THAT(worst().what, HasSubstr("no tracehost package in"));
}

TEST_F(DoctorTest, ModuleMissing) {
  found.module = false;
  EXPECT_THAT(worst().what, HasSubstr("no extension module"));
}

TEST_F(DoctorTest, EnvironmentOfAnotherPython) {
  environment.python_version = "3.9.2";
  EXPECT_EQ(worst().verdict, Verdict::fail);
  EXPECT_THAT(worst().what, HasSubstr("the environment is of Python 3.9.2"));
}

TEST_F(DoctorTest, ChildrenOutsideTheHost) {
  environment.executable = prefix / "bin" / "python3";
  std::ofstream(environment.executable) << "";
  EXPECT_EQ(worst().verdict, Verdict::warn);
  EXPECT_THAT(worst().what, HasSubstr("outside the host"));
}

TEST_F(DoctorTest, TorchOfAnotherEnvironmentThatAPthFileNames) {
  const auto site = prefix / "lib" /
                    ("python" + interpreter::minor_of(interpreter::loaded_python_version())) /
                    "site-packages";
  fs::create_directories(site);
  fs::create_directories(prefix / "other" / "torch");
  std::ofstream(prefix / "other" / "torch" / "version.py") << "__version__ = '2.12.0'\n";
  EXPECT_EQ(inspect(environment).torch, "");
  std::ofstream(site / "more.pth") << "import sys\n" << (prefix / "other").string() << "\n";
  EXPECT_EQ(inspect(environment).torch, "2.12.0");
  fs::remove_all(prefix);
}

TEST(Doctor, VariablesThatAreNearlyOurs) {
  const char *environment[] = {"TRACEHOST_REPROT=x",
                               "TRACEHOST_REPORT=x",
                               "TRACEHOST_REPORT_PID=1",
                               "TRACEHOST_NOTEBOOK_TIMOUT=1",
                               "TRACEHOST_UNLIKE_ANY_OTHER=1",
                               "OTHER=1",
                               nullptr};
  const auto findings = check_variables(environment);
  ASSERT_EQ(findings.size(), 2);
  EXPECT_EQ(findings[0].verdict, Verdict::warn);
  EXPECT_EQ(findings[0].what, "TRACEHOST_REPROT is not a tracehost variable");
  EXPECT_EQ(findings[0].fix, "did you mean TRACEHOST_REPORT?");
  EXPECT_EQ(findings[1].fix, "did you mean TRACEHOST_NOTEBOOK_TIMEOUT?");
}

TEST(Doctor, LinesOfTheChildProcess) {
  const auto finding = finding_of("WARN\tno dot\tinstall it");
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->verdict, Verdict::warn);
  EXPECT_EQ(finding->what, "no dot");
  EXPECT_EQ(finding->fix, "install it");
  EXPECT_EQ(finding_of("OK\tfine\t")->fix, "");
  for (const char *line : {"", "OK", "OK\tfine", "Traceback (most recent call last):", "ok\ta\tb"})
    EXPECT_FALSE(finding_of(line).has_value()) << line;
}

TEST_F(DoctorTest, EveryTroubleHasAFix) {
  for (const auto &finding : check({}, {}))
    EXPECT_EQ(finding.verdict == Verdict::ok, finding.fix.empty()) << finding.what;
}

} // namespace
} // namespace tracehost::cli
