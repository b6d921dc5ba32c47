"""Lists what is linked into the program of a release; for scripts/release.

    python3 scripts/sbom.py spdx|licenses VERSION CACHE < LIBRARIES

prints a bill of materials (SPDX 2.3, https://spdx.github.io/spdx-spec/v2.3) or the licenses. LIBRARIES are the
names that the linker was given, one a line; CACHE is the folder with what third_party/static/build and
third_party/curl/build have made."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
from typing import Dict, Iterator, List, NamedTuple

# Libraries of the C library, which is not linked into the program.
SHARED = {"c", "dl", "m", "pthread", "rt"}
HEADERS_ONLY = ("libcli11-dev", "libxxhash-dev", "nlohmann-json3-dev")


class Part(NamedTuple):
    name: str
    source: str  # Debian's source package
    version: str
    license: pathlib.Path


def fail(message: str) -> None:
    sys.exit(f"sbom: {message}")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def of_package(name: str, package: str) -> Part:
    source, version = output("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}\n", package).split()[:2]
    return Part(name, source, version, pathlib.Path("/usr/share/doc") / package.split(":")[0] / "copyright")


def of_file(name: str, path: str) -> Part:
    return of_package(name, output("dpkg", "-S", os.path.realpath(path)).split(": ")[0])


def parts(libraries: List[str], cache: pathlib.Path) -> Iterator[Part]:
    static = cache / "static"
    built = {library: (source, version) for library, source, version in
             (line.split() for line in (static / "sources").read_text().splitlines())}
    for name in libraries:
        if name in SHARED:
            continue
        archive = static / "lib" / f"lib{name}.a"
        if name in built:
            yield Part(name, *built[name], static / "licenses" / name)
        elif archive.is_symlink():
            yield of_file(name, str(archive))
        elif archive.exists():  # a script of the linker, which names the archive among others
            yield of_file(name, next(path for path in archive.read_text().split() if path.endswith("/" + archive.name)))
        else:
            fail(f"{archive} does not exist: where does the linker find {name}?")
    version = (cache / "curl/stamp").read_text().splitlines()[1].split()[-1]
    yield Part("curl", "curl", version, cache / "curl/COPYING")
    yield of_file("gcc", output("gcc", "-print-file-name=libgcc.a").strip())
    for package in HEADERS_ONLY:
        yield of_package(package.removeprefix("lib").removesuffix("-dev"), package)


def spdx(found: List[Part], version: str) -> str:
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    unknown = {"downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
               "copyrightText": "NOASSERTION"}
    packages = [{"SPDXID": "SPDXRef-shardfeed", "name": "shardfeed", "versionInfo": version, **unknown,
                 "licenseDeclared": "Apache-2.0"}]
    relationships = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                      "relatedSpdxElement": "SPDXRef-shardfeed"}]
    for part in {part.source: part for part in found}.values():  # a source may make several libraries
        identifier = "SPDXRef-" + "".join(c if c.isalnum() else "-" for c in part.source)
        packages.append({"SPDXID": identifier, "name": part.source, "versionInfo": part.version, **unknown,
                         "licenseDeclared": "NOASSERTION", "externalRefs": [{
                             "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                             "referenceLocator": f"pkg:deb/debian/{part.source}@{part.version.replace('+', '%2B')}"
                                                 "?arch=source"}]})
        relationships.append({"spdxElementId": "SPDXRef-shardfeed", "relationshipType": "STATIC_LINK",
                              "relatedSpdxElement": identifier})
    return json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"shardfeed-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/shardfeed-{version}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": [f"Tool: shardfeed-sbom-{version}"]},
        "packages": packages, "relationships": relationships}, indent=1)


def licenses(found: List[Part]) -> str:
    texts: Dict[str, List[Part]] = {}  # the parts of each text
    for part in found:
        texts.setdefault(part.license.read_text(), []).append(part)
    return "\n\n".join("=" * 100 + "\n" + ", ".join(f"{part.name} (Debian's {part.source} {part.version})"
                                                    for part in of) + "\n" + "=" * 100 + "\n\n" + text.strip()
                       for text, of in texts.items())


what, release, folder = sys.argv[1:]
all_parts = list(parts(sys.stdin.read().split(), pathlib.Path(folder)))
print(spdx(all_parts, release) if what == "spdx" else licenses(all_parts))
