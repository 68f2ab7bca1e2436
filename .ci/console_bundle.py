"""Makes `api/console/static/htmx.js`, the script that the console's pages load before their own, out of npm's package:
`python .ci/console_bundle.py`. One file, because several deferred ones start in an order that nobody promises, and htmx
without its guard would carry out what was injected into a page.
"""

# ruff: noqa: T201, S603, S607 (it talks to a terminal and asks npm for a package)

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "htmx.org@4.0.1"
HEAD = "/*! {package}: htmx with its extensions hx-csp and hx-sse. Zero-Clause BSD, https://htmx.org */\n"
PARTS = {
    "package/dist/htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "package/dist/ext/hx-csp.min.js": "a7e1e6711ae6c3e50ad300fba7936cbe8d07599cdae313414a179ddd6b26e143",
    "package/dist/ext/hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
"""Files of the package, and the SHA-256 of each. The guard comes before what it guards."""
TARGET = Path(__file__).resolve().parents[1] / "api" / "console" / "static" / "htmx.js"


def main() -> int:
    """Fetch the package, check its files, and write them as one."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        [packed] = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            TARGET.write_bytes(HEAD.format(package=PACKAGE).encode() + b"".join(_part(archive, name) for name in PARTS))
    print(f"{TARGET} ({TARGET.stat().st_size} bytes)")
    return 0


def _part(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    content = member.read() if member else b""
    if hashlib.sha256(content).hexdigest() != PARTS[name]:
        sys.exit(f"{name} of {PACKAGE} is not the file that was looked at")
    lines = [line for line in content.splitlines() if not line.startswith(b"//# sourceMappingURL=")]
    return b"\n".join(lines) + b";\n"


if __name__ == "__main__":
    sys.exit(main())
