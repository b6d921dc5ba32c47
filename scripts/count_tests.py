"""Counts test cases from the XML that Bazel's tests and pytest leave.

count_tests.py collect NAME LOGS OUT LABEL...   copies the results of Bazel's tests to OUT
count_tests.py sum OUT                          prints "N passed, N failed"; status 1 if any failed
"""

import pathlib
import shutil
import sys
import xml.etree.ElementTree as ElementTree


def collect(name, logs, out, labels):
    """Copies each test's XML. A test without one, such as one that did not build, is reported as failed."""
    missing = 0
    for label in labels:
        path = label.lstrip("/").replace(":", "/")
        source = pathlib.Path(logs) / path / "test.xml"
        target = pathlib.Path(out) / f"{name}-{path.replace('/', '-')}.xml"
        if source.exists():
            shutil.copy(source, target)
        else:
            print(f"count_tests: {label} left no result", file=sys.stderr)
            target.write_text(
                '<testsuites><testsuite><testcase name="no result"><failure/></testcase>'
                "</testsuite></testsuites>"
            )
            missing += 1
    return 1 if missing else 0


def count(out):
    passed = failed = skipped = 0
    for path in sorted(pathlib.Path(out).glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                failed += 1
                print(f"FAILED {path.stem}: {case.get('classname', '')}.{case.get('name', '')}")
            elif "skipped" in outcomes or case.get("status") == "notrun":
                skipped += 1
            else:
                passed += 1
    if skipped:
        print(f"{skipped} skipped (the log of each says why)")
    if passed + failed == 0:
        print("count_tests: no test was run", file=sys.stderr)
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) >= 5 and sys.argv[1] == "collect":
        sys.exit(collect(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]))
    if len(sys.argv) == 3 and sys.argv[1] == "sum":
        sys.exit(count(sys.argv[2]))
    sys.exit(__doc__)
