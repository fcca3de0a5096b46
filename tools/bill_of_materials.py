# SPDX-License-Identifier: MIT
"""Writes the bill of materials of an archive as SPDX 2.3 JSON: the wheels that set-up installs, and the Debian packages of the build.

bill_of_materials.py REQUIREMENTS PACKAGES STATUS: names and hashes of wheels come from REQUIREMENTS (tools/requirements.txt), names of
Debian packages from PACKAGES (tools/packages.txt), and their versions from dpkg's file STATUS. The bill goes to the output.
Exit codes: 2 wrong use, 3 a file that cannot be used, 4 a file that cannot be read.
"""
import json
import re
import sys
import urllib.parse
import uuid

from bad_input import BadInput, run

# Packages that a reader looks for by their own names, and the wheels that have them.
PARTS = {"LibTorch": "torch", "CUDA": "cuda-toolkit", "cuDNN": "nvidia-cudnn-cu13", "NCCL": "nvidia-nccl-cu13"}
# The end of a line of PACKAGES says what its packages are for. All others are libraries, tools and data of a run.
RELATIONS = {"the build": "BUILD_DEPENDENCY_OF", "tests": "TEST_DEPENDENCY_OF"}
ARCHIVE = "SPDXRef-archive"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def wheels(path):
    """Returns (name, version, hashes) of each wheel."""
    found = []
    for pin in read(path).replace("\\\n", " ").splitlines():
        if not pin.strip() or pin.startswith("#"):
            continue
        match = re.fullmatch(r"([\w.-]+)==([\w.]+)((?: +--hash=sha256:[0-9a-f]{64})+) *", pin)
        if not match:
            raise BadInput(f"{path}: expected NAME==VERSION --hash=sha256:HASH..., got: {pin[:100]}")
        found.append((match[1], match[2], re.findall("[0-9a-f]{64}", match[3])))
    return found


def debian_packages(path):
    """Returns (name, relation to the archive) of each package."""
    found = []
    for line in read(path).splitlines():
        names, _, purpose = line.partition("#")
        found += [(name, RELATIONS.get(purpose.strip(), "DEPENDS_ON")) for name in names.split()]
    return found


def installed_versions(path):
    """Returns the versions of installed packages by their names, from paragraphs of lines `Field: value`."""
    versions = {}
    for paragraph in read(path).split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields["Version"]
    return versions


def quoted(text):
    return urllib.parse.quote(text, safe="")


class Bill:
    """The packages and relations of the document."""

    def __init__(self):
        self.packages = [{"SPDXID": ARCHIVE, "name": "strata", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseDeclared": "MIT",
                          "comment": "SHA256SUMS in the archive has the hashes of its files."}]
        self.relations = [("SPDXRef-DOCUMENT", "DESCRIBES", ARCHIVE)]

    def add(self, kind, name, version, locator=None, hashes=()):
        """Returns the identifier of the new package."""
        identifier = f"SPDXRef-{kind}-" + re.sub("[^A-Za-z0-9.-]", "-", name)
        package = {"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False}
        if locator:
            reference = f"pkg:{locator}/{quoted(name.lower().replace('_', '-'))}@{quoted(version)}"
            package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": reference}]
        if hashes:
            package["checksums"] = [{"algorithm": "SHA256", "checksumValue": value} for value in hashes]
        if len(hashes) > 1:
            package["comment"] = "There is a wheel for each version of Python. The installed one has one of these hashes."
        self.packages.append(package)
        return identifier

    def document(self):
        relations = [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in self.relations]
        content = json.dumps([self.packages, relations])
        return {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "strata",
            "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
            # The time is the same as for all files in the archive, so that the same sources give the same bytes.
            "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: bill_of_materials.py"]},
            "packages": self.packages, "relationships": relations}


def main():
    if len(sys.argv) != 4:
        print("bill_of_materials.py REQUIREMENTS PACKAGES STATUS", file=sys.stderr)
        sys.exit(2)
    requirements, packages, status = sys.argv[1:]
    bill, identifiers, versions = Bill(), {}, {}
    for name, version, hashes in wheels(requirements):
        identifiers[name], versions[name] = bill.add("wheel", name, version, "pypi", hashes), version
        bill.relations.append((ARCHIVE, "DEPENDS_ON", identifiers[name]))
    for name, wheel in PARTS.items():
        if wheel not in identifiers:
            raise BadInput(f"{requirements}: has no wheel {wheel}, which has {name}")
        bill.relations.append((identifiers[wheel], "CONTAINS", bill.add("part", name, versions[wheel])))
    installed = installed_versions(status)
    for name, relation in debian_packages(packages):
        if name not in installed:
            raise BadInput(f"{status}: the package {name} of {packages} is not installed; install it with tools/strata setup")
        package = bill.add("debian", name, installed[name], "deb/debian")
        bill.relations.append((ARCHIVE, relation, package) if relation == "DEPENDS_ON" else (package, relation, ARCHIVE))
    json.dump(bill.document(), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    run(main)
