"""The name of the module that a file is, and what its imports name."""

from __future__ import annotations

from urllib.parse import urlsplit

from sluice.contracts.graph.model import GraphDocument

_SUFFIXES = (".py", ".pyi", ".pyw")
_PACKAGE = "__init__"


def module_name(document: GraphDocument) -> str:
    """`main.workers.handlers` for `main/workers/handlers.py`; a package is named by its folder.

    A page without a path is named by its address, and else by its id, so that no two modules are one by mistake.
    """
    parts = _parts(document)
    if len(parts) > 1 and parts[-1] == _PACKAGE:
        parts = parts[:-1]
    return ".".join(parts) or document.document_id


def package_name(document: GraphDocument) -> str:
    """The package that relative imports of the file begin at; empty for a file in no folder."""
    return ".".join(_parts(document)[:-1])


def imported_name(package: str, written: str) -> str:
    """The absolute name of `written`, as `..models.User`, in a module of `package`.

    What leads out of the outermost folder is named from there: the folders above are not known.
    """
    name = written.lstrip(".")
    dots = len(written) - len(name)
    if not dots:
        return name
    parts = package.split(".") if package else []
    kept = parts[: max(0, len(parts) - dots + 1)]
    return ".".join([*kept, *([name] if name else [])])


def _parts(document: GraphDocument) -> list[str]:
    path = document.path
    if not path and document.url:
        try:
            path = urlsplit(document.url).path
        except ValueError:
            path = None
    path = (path or "").replace("\\", "/")
    for suffix in _SUFFIXES:
        if path.endswith(suffix):
            path = path.removesuffix(suffix)
            break
    return [part for part in path.split("/") if part not in ("", ".")]
