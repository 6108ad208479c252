"""Writes the bill of materials for the files next to it: ``python project/release/sbom.py <file>``.

The jars contain only our own classes, and the wheel contains the jars, so no component has nested
ones. Spark, which they require, is listed as provided by the user.
"""

import hashlib
import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from publisher import PUBLISHER
from spark_lines import spark_lines

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()
LICENSE = LicenseExpression("Apache-2.0")


def main(target: Path) -> None:
    """Write the bill; its number and its time are derived from its contents, so that it is reproducible."""
    jars = sorted(target.parent.glob(f"maven/**/streamjoin-spark*-{VERSION}.jar"))
    packages = sorted([*target.parent.glob("*.whl"), *target.parent.glob("*.tar.gz")])
    assert jars and len(packages) == 2, f"{target.parent} has {len(jars)} jars, and {packages}"
    bom = Bom()
    product = Component(name="streamjoin", version=VERSION, type=ComponentType.LIBRARY, licenses=[LICENSE])
    product.bom_ref.value = "streamjoin"
    bom.metadata.component = product
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    parts = [ours(file) for file in [*jars, *packages]]
    provided = [spark(line.version) for line in spark_lines()]
    for part in [*parts, *provided]:
        bom.components.add(part)
    bom.register_dependency(product, parts)
    for part in parts:
        bom.register_dependency(part, [each for each in provided if is_for(part, each)])
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "".join(str(part.hashes) for part in parts))
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")


def ours(file: Path) -> Component:
    """Return a file of the release."""
    name = file.parent.parent.name if file.suffix == ".jar" else "streamjoin"
    kind = PackageURL("maven", PUBLISHER["group"], name, VERSION)
    part = Component(
        name=file.name,
        version=VERSION,
        type=ComponentType.LIBRARY,
        licenses=[LICENSE],
        purl=kind if file.suffix == ".jar" else PackageURL("pypi", None, name, VERSION, {"file_name": file.name}),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(file.read_bytes()).hexdigest())],
    )
    part.bom_ref.value = file.name
    return part


def spark(version: str) -> Component:
    """Return the Spark of a line, which the user provides."""
    part = Component(
        name="spark-sql_2.13",
        group="org.apache.spark",
        version=version,
        type=ComponentType.FRAMEWORK,
        scope=ComponentScope.EXCLUDED,
        licenses=[LICENSE],
        purl=PackageURL("maven", "org.apache.spark", "spark-sql_2.13", version),
    )
    part.bom_ref.value = f"spark-{version}"
    return part


def is_for(part: Component, spark: Component) -> bool:
    """Return whether a component needs this Spark: a jar needs that of its line, a Python package any of them."""
    line = ".".join((spark.version or "").split(".")[:2])
    return not part.name.endswith(".jar") or f"-spark{line}_" in part.name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
