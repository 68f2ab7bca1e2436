"""Where a printed path lies: inside the project, or outside."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import unquote

from sluice.contracts.memory.names import relative_path

_INSTALLED = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|node_modules|\.venv|venv|\.tox|\.nox|\.cargo|\.rustup)/"
    r"|(?:^|/)lib(?:64)?/python\d|^node:|^internal/(?:modules|process|main|bootstrap|util|streams|timers|deps)/"
)
"""Libraries below the project's folder, and what Node.js calls its own files."""
_SYSTEM = re.compile(r"/(?:rustc|usr|lib|lib64|opt|nix|proc|etc)/")
"""Libraries where the project's folder is the root of the file system (as in a container)."""
_DRIVE = re.compile(r"/?([A-Za-z]):[\\/]")


@dataclass(frozen=True, slots=True)
class Project:
    """The project's folder (None: not known) and the folder that the command ran in, both absolute and normal."""

    root: str | None = None
    folder: str | None = None

    @classmethod
    def of(cls, root: str | None, moved: str | None = None) -> Project:
        """A project in `root`; `moved` is where the command changed to (`cd moved && …`)."""
        if root is not None:
            root = posixpath.normpath(_posix(root))
        base = root or ""
        folder = posixpath.normpath(posixpath.join(base, moved)) if moved else root
        return cls(root, folder)

    def locate(self, path: str | None, folder: str | None = None) -> tuple[str | None, bool]:
        """`path` relative to the root, and whether it lies outside. `folder`: what it starts from, if not the command's."""
        if not path:
            return None, False
        path = _posix(path)
        if path.startswith("<") or path in ("stdin", "-", "string", "native", "eval", "evalmachine."):
            return None, False
        base = folder or self.folder or ""
        full = posixpath.normpath(posixpath.join(base, path))
        if full.startswith("/") or _DRIVE.match(full):
            if self.root is None:
                return None, True
            inside = posixpath.relpath(full, self.root) if full.startswith("/") else ".."
        else:
            inside = full
        if inside.startswith("..") or len(inside) > 1_024 or _INSTALLED.search(inside):
            return None, True
        if self.root == "/" and _SYSTEM.match(full):
            return None, True
        try:
            return relative_path(inside), False
        except ValueError:
            return None, True

    def anchored(self, path: str) -> str:
        """`path` as it stands, or from the root where it already begins with the folder that the command changed to.

        Cargo names files from the workspace's folder, wherever it was started.
        """
        if self.root is None or self.folder is None or self.folder == self.root or path.startswith("/"):
            return path
        moved = posixpath.relpath(self.folder, self.root)
        return f"{self.root}/{path}" if path.startswith(moved + "/") else path

    def holds(self, path: str) -> bool:
        """Whether `path` is a file of the project, and none of an installed library."""
        return self.locate(path)[0] is not None


def _posix(path: str) -> str:
    if path.startswith("file://"):
        path = unquote(path[len("file://") :])
    drive = _DRIVE.match(path)
    if drive:
        path = f"/{drive[1].lower()}:/" + path[drive.end() :]
    return path.replace("\\", "/") if "\\" in path else path
