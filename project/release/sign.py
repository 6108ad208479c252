"""Signs the published files: ``python project/release/sign.py <dist>``, with the key in gpg's keyring.

Each file of the Maven repository gets a signature next to it, as Maven Central asks for, and `SHA256SUMS` one that
stands for everything. The passphrase, if the key has one, is in `PGP_PASSPHRASE`.
"""

import os
import subprocess
import sys
from pathlib import Path

# Maven Central wants no signatures of these files: they are themselves signatures and checksums.
UNSIGNED = {".asc", ".md5", ".sha1", ".sha256", ".sha512"}


def main(dist: Path) -> None:
    """Sign all files again."""
    files = [*to_sign(dist), dist / "SHA256SUMS"]
    for file in files:
        sign(file)
    print(f"signed {len(files)} files in {dist}")


def to_sign(dist: Path) -> list[Path]:
    """Return the files of the Maven repository that need a signature."""
    found = sorted(file for file in (dist / "maven").rglob("*") if file.is_file() and file.suffix not in UNSIGNED)
    assert found, f"{dist}/maven has no files: make release"
    return found


def sign(file: Path) -> None:
    """Write the signature of a file next to it."""
    command = ["gpg", "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase-fd", "0"]
    command += ["--armor", "--detach-sign", str(file)]
    subprocess.run(command, input=os.environ.get("PGP_PASSPHRASE", ""), text=True, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
