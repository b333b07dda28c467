"""Add up the JUnit files of a directory; the last line printed is `N passed, N failed, N skipped`. Fails if nothing ran."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count(file: Path) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    for case in ET.parse(file).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        # GoogleTest writes a skipped test with the element, a disabled one as not run.
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(directory: Path) -> int:
    passed = failed = skipped = 0
    for file in sorted(directory.glob("*.xml")):
        try:
            p, f, s = count(file)
        except ET.ParseError:  # cut off by a crash
            p, f, s = 0, 1, 0
        # A suite that ended badly without a failed case, such as a crash at exit, has failed all the same.
        if file.with_suffix(".failed").exists() and f == 0:
            f = 1
        passed, failed, skipped = passed + p, failed + f, skipped + s
    for mark in directory.glob("*.failed"):
        if not mark.with_suffix(".xml").exists():
            print(f"tracehost: {mark.stem} ended without a result", file=sys.stderr)
            failed += 1
    if passed + failed == 0:
        print("tracehost: no test ran", file=sys.stderr)
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
