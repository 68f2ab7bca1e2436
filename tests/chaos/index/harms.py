"""Harms to a generation's files: a flipped bit, a cut, a file that is gone, one file in another's place.

A harm is private when the current generation gets a damaged file of its own, and shared when the bytes change under
every generation that links the file. Every harm changes what is read: swapping equal files is none.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice.index.folder import CorpusLayout

Damage = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True, slots=True)
class Harm:
    """What was done, and to which file (below the corpus's folder)."""

    kind: str
    path: str
    is_shared: bool

    def __str__(self) -> str:
        return f"{self.kind} {'shared ' if self.is_shared else ''}{self.path}"


def flip_a_bit(content: bytes, chance: random.Random) -> bytes:
    """One bit, anywhere."""
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    """Any number of bytes are missing from the end."""
    return content[: chance.randrange(len(content))]


def blank(content: bytes, chance: random.Random) -> bytes:
    """A block reads as zeros, as after a lost write."""
    start = chance.randrange(len(content))
    size = min(len(content) - start, 512)
    return content[:start] + bytes(size) + content[start + size :]


FILE_DAMAGES: dict[str, Damage] = {"flip": flip_a_bit, "cut": cut, "blank": blank}
KINDS = (*FILE_DAMAGES, "swap", "missing", "folder", "pointer")
WEIGHTS = (40, 20, 5, 20, 10, 2, 3)


def harm(layout: CorpusLayout, current: str, chance: random.Random) -> Harm:
    """Do one harm at random to the generation `current` or to the pointer; what was done."""
    while True:
        kind = chance.choices(KINDS, WEIGHTS)[0]
        is_shared = chance.random() < 0.4
        folder = layout.generations / current
        match kind:
            case "pointer":
                done: Harm | None = _break_pointer(layout, chance)
            case "folder":
                done = _lose_folder(layout, folder, chance)
            case "missing":
                path = chance.choice(_files(folder))
                path.unlink()
                done = Harm(kind, _below(layout, path), False)
            case "swap":
                done = _swap(layout, folder, chance, is_shared)
            case _:
                done = _damage(layout, folder, kind, chance, is_shared)
        if done is not None:
            return done


def fingerprint(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by its path: whole is what has the same as before."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    """What belongs to a generation; opening it may leave a hidden lock file beside."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _below(layout: CorpusLayout, path: Path) -> str:
    return str(path.relative_to(layout.folder))


def _damage(layout: CorpusLayout, folder: Path, kind: str, chance: random.Random, is_shared: bool) -> Harm | None:
    path = chance.choice(_files(folder))
    old = path.read_bytes()
    new = FILE_DAMAGES[kind](old, chance) if old else old
    if new == old:
        return None
    _put(path, new, is_shared)
    return Harm(kind, _below(layout, path), is_shared)


def _swap(layout: CorpusLayout, folder: Path, chance: random.Random, is_shared: bool) -> Harm | None:
    """A file gets the bytes of another one: of the same kind in any generation, or any of its own."""
    path = chance.choice(_files(folder))
    likes = [other for other in _files(layout.generations) if other.suffix == path.suffix]
    other = chance.choice(chance.choice((likes, _files(folder))))
    old, new = path.read_bytes(), other.read_bytes()
    if old == new:
        return None
    _put(path, new, is_shared)
    if other.is_relative_to(folder) and chance.random() < 0.5:
        _put(other, old, is_shared)
    return Harm(f"swap with {_below(layout, other)}:", _below(layout, path), is_shared)


def _put(path: Path, content: bytes, is_shared: bool) -> None:
    """Write under every link of the file, or give this path a file of its own."""
    if is_shared:
        path.write_bytes(content)
        return
    own = path.with_name(f"{path.name}.own")
    own.write_bytes(content)
    os.replace(own, path)


def _lose_folder(layout: CorpusLayout, folder: Path, chance: random.Random) -> Harm:
    lost = chance.choice([folder, *(path for path in folder.rglob("*") if path.is_dir())])
    shutil.rmtree(lost)
    if chance.random() < 0.3:
        lost.write_bytes(b"a file where a folder was")
    return Harm("folder", _below(layout, lost), False)


def _break_pointer(layout: CorpusLayout, chance: random.Random) -> Harm:
    """The pointer is gone, is a file, or names what is no generation of this corpus."""
    name = layout.current.readlink().name
    layout.current.unlink()
    match way := chance.choice(("missing", "empty file", "file", "folder", "nowhere", "no generation", "outside")):
        case "empty file":
            layout.current.touch()
        case "file":
            layout.current.write_bytes(chance.randbytes(40))
        case "folder":
            layout.current.mkdir()
        case "nowhere":
            layout.current.symlink_to(f"generations/{name[:-1]}{'0' if name[-1] != '0' else '1'}")
        case "no generation":
            layout.current.symlink_to("generations/\udcff*[")
        case "outside":
            layout.current.symlink_to("../../../etc")
    return Harm(f"pointer {way}", layout.current.name, False)
