"""The file of a backup: tar (PAX, times at 0) in zstd, and around it age (age-encryption.org/v1) where it is encrypted.

The last member, `MANIFEST.json`, names size and SHA-256 of all others: a file without it is no backup. Encrypted to a
recipient, the file is one that `age -d` opens. With a passphrase it begins with `sluice-sealed/1`, a line feed, a
length (u32, big-endian) and that many bytes: 16 of salt, and a Fernet token with the age key of the rest, whose own key
is scrypt's (RFC 7914) of the passphrase. age's own passphrases are not used: what they cost is measured on the machine
that writes, and a slower or busier one refuses to open them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol

import zstandard
from pydantic import ValidationError

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.errors import Corrupted, DiskFull, InvalidInput, NotInstalled, Unavailable

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

MANIFEST = "MANIFEST.json"
_ZSTD, _AGE, _SEALED = b"\x28\xb5\x2f\xfd", b"age-encryption.org/v1", b"sluice-sealed/1\n"
_LENGTH = struct.Struct(">I")
_SALT_BYTES = 16
_SCRYPT_N, _SCRYPT_R = 1 << 16, 8
"""64 MB and a fifth of a second for each guess."""
_BLOCK_BYTES = 1 << 18
_LEVEL = 3
"""zstd's default: blobs are compressed already, and journals shrink little more at higher levels."""
_MOST_MANIFEST_BYTES = 1 << 30


class Member(Value):
    """A member of the archive."""

    size_bytes: int
    sha256: Sha256


class Canary(Value):
    """A question to a corpus, the document whose first vector goes with it, and the ids of the chunks found first."""

    question: str
    document_id: str
    chunk_ids: tuple[str, ...]


class CorpusFacts(Value):
    """A corpus as the backup holds it."""

    journal_offset: int
    documents: int
    id_set_hash: Sha256
    canaries: tuple[Canary, ...] = ()


class BackupManifest(Value):
    """What a backup holds. The ledger is as it was at `ledger_at`; what it refers to is as old or younger."""

    format: int = 1
    sluice: str
    instance: str
    ledger_at: Moment
    schema_version: int
    postgresql_schema: str | None = None
    """Schema of a dumped ledger; null: it is an SQLite file."""
    rows: dict[str, int]
    corpora: dict[str, CorpusFacts]
    skipped: tuple[str, ...] = ()
    members: dict[str, Member]


@dataclass
class Seal:
    """Who may open the file: holders of the recipients' keys, or whoever knows the passphrase. Each writing has a key
    of its own besides, so that the same process can verify what it wrote; it is kept in memory alone."""

    recipients: tuple[str, ...] = ()
    passphrase: str | None = None
    _own: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.is_closed:
            return
        age = age_library()
        self._parsed = [_recipient(one) for one in self.recipients]
        self._own = age.x25519.Identity.generate()

    @property
    def is_closed(self) -> bool:
        """Whether the file is encrypted."""
        return bool(self.recipients or self.passphrase)

    @contextmanager
    def writing(self, out: IO[bytes]) -> Iterator[IO[bytes]]:
        """Yield a file whose bytes reach `out`, encrypted if the seal is closed."""
        if not self.is_closed:
            yield out
            return
        age = age_library()
        if self.passphrase:
            salt = os.urandom(_SALT_BYTES)
            key = salt + _fernet(self.passphrase, salt).encrypt(str(self._own).encode())
            out.write(_SEALED + _LENGTH.pack(len(key)) + key)
        to = [self._own.to_public(), *self._parsed]
        with _piped(lambda source: age.encrypt_io(source, out, to), to_other=True) as sink:
            yield sink

    def keys(self) -> Keys:
        """Return the keys that open what this process wrote."""
        return Keys(identities=(self._own,) if self._own else ())


@dataclass(frozen=True)
class Keys:
    """Identities of age, or the passphrase, that open a backup."""

    identities: tuple[Any, ...] = ()
    passphrase: str | None = None

    @classmethod
    def read(cls, file: Path) -> Keys:
        """Read an identity file of age, an SSH key, or a passphrase in one line. Raises `InvalidInput`."""
        try:
            content = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("identity", f"{file} cannot be read: {error}", "name a file with a key") from error
        age = age_library()
        try:
            if "PRIVATE KEY-----" in content:
                return cls((age.ssh.Identity.from_buffer(content.encode()),))
            lines = [line.strip() for line in content.splitlines() if line.strip() and not line.startswith("#")]
            if lines and all(line.startswith("AGE-SECRET-KEY-") for line in lines):
                return cls(tuple(map(age.x25519.Identity.from_str, lines)))
        except age.IdentityError as error:
            raise InvalidInput(
                "identity", f"{file} holds no key: {error}", "name the file that age-keygen wrote"
            ) from error
        return cls(passphrase=content.rstrip("\r\n"))

    @contextmanager
    def reading(self, file: BinaryIO) -> Iterator[IO[bytes]]:
        """Yield the decrypted bytes of a backup. Raises `InvalidInput` if it is none, or these keys do not open it."""
        head = file.read(len(_AGE))
        file.seek(0)
        identities = self.identities
        if head.startswith(_SEALED):
            file.seek(len(_SEALED))
            [length] = _LENGTH.unpack(file.read(_LENGTH.size).ljust(_LENGTH.size, b"\0"))
            sealed = file.read(min(length, 1 << 16))
            identities = identities or (self._unsealed(sealed),)
        elif head.startswith(_ZSTD):
            yield file
            return
        elif not head.startswith(_AGE):
            raise InvalidInput("file", "is no backup of Sluice", "name one that `sluice backup` wrote")
        if not identities:
            raise InvalidInput("identity", "is missing, and the backup is encrypted", "give --identity FILE")
        age = age_library()
        with _piped(lambda sink: age.decrypt_io(file, sink, list(identities)), to_other=False) as source:
            yield source

    def _unsealed(self, sealed: bytes) -> Any:
        from cryptography.fernet import InvalidToken

        age = age_library()
        if self.passphrase is None:
            problem = "is missing, and the backup is sealed by a passphrase"
            raise InvalidInput("identity", problem, "give --identity FILE with it in one line")
        try:
            salt, token = sealed[:_SALT_BYTES], sealed[_SALT_BYTES:]
            return age.x25519.Identity.from_str(_fernet(self.passphrase, salt).decrypt(token).decode())
        except (InvalidToken, age.IdentityError) as error:
            raise InvalidInput("identity", "the passphrase does not open the backup", "give the right one") from error


def age_library() -> Any:
    """Return the library that encrypts. Raises `NotInstalled` without it."""
    try:
        import pyrage  # type: ignore[import-untyped]
    except ImportError as error:
        raise NotInstalled("encrypted backups", "pip install 'sluice[backup]'") from error
    return pyrage


def _fernet(passphrase: str, salt: bytes) -> Fernet:
    from cryptography.fernet import Fernet  # here: most backups do without

    memory = 128 * _SCRYPT_N * _SCRYPT_R
    key = hashlib.scrypt(passphrase.encode(), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=1, maxmem=2 * memory, dklen=32)
    return Fernet(base64.urlsafe_b64encode(key))


def _recipient(told: str) -> Any:
    age = age_library()
    kind = age.ssh if told.startswith("ssh-") else age.x25519
    try:
        return kind.Recipient.from_str(told)
    except age.RecipientError as error:
        raise InvalidInput("recipient", f"{told[:20]}… is no key: {error}", "age1… or ssh-ed25519 …") from error


@contextmanager
def _piped(run: Callable[[IO[bytes]], object], *, to_other: bool) -> Iterator[IO[bytes]]:
    """Yield one end of a pipe while a thread runs `run` on the other end: it reads with `to_other`, else it writes. Its
    error is raised at the end of the block, in place of that of the broken pipe."""
    reader, writer = os.pipe()
    ends: tuple[IO[bytes], IO[bytes]] = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
    theirs, ours = ends if to_other else ends[::-1]
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with theirs:
                run(theirs)
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            failed.append(error)

    thread = threading.Thread(target=work, name="age", daemon=True)
    thread.start()
    problem: BaseException | None = None
    try:
        with ours:
            yield ours
    except (OSError, Corrupted) as error:
        problem = error
    finally:
        thread.join()
    if failed and not (problem is None and isinstance(failed[0], BrokenPipeError)):
        raise _age_error(failed[0])
    if problem is not None:
        raise problem


def _age_error(error: BaseException) -> Exception:
    """Return the library's error as one of Sluice's: it wraps those of files in its own, as text."""
    told = str(error)
    if "[Errno 28]" in told:
        return DiskFull("the disk is full")
    if "No matching keys" in told:
        return InvalidInput("identity", "does not open the backup", "give the key of one of its recipients")
    if type(error).__name__ == "EncryptError":
        return Unavailable(f"the backup cannot be encrypted: {told}")
    return Corrupted(f"the backup is damaged or cut off: {told}")


class _Reading(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Hashed:
    """Hashes what is read of a file, and reads no more than `left` bytes."""

    def __init__(self, file: _Reading, left: int) -> None:
        self._file, self._left, self.digest = file, left, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        block = self._file.read(min(size if size >= 0 else self._left, self._left))
        self._left -= len(block)
        self.digest.update(block)
        return block


class ArchiveWriter:
    """Writes members one after the other to `out`. Not for two threads."""

    def __init__(self, out: IO[bytes]) -> None:
        self._packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(out, closefd=False)
        self._tar = tarfile.open(fileobj=self._packed, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.members: dict[str, Member] = {}

    def add(self, name: str, file: IO[bytes], size_bytes: int) -> None:
        """Add the first bytes of a file, from its position. Raises `Unavailable` if it holds less by now."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size_bytes, 0o600
        hashed = _Hashed(file, size_bytes)
        try:
            self._tar.addfile(info, hashed)
        except OSError as error:
            if "unexpected end of data" in str(error):
                raise Unavailable(f"{name} was cut while it was copied: take the backup again") from error
            raise
        self.members[name] = Member(size_bytes=size_bytes, sha256=hashed.digest.hexdigest())

    def add_path(self, name: str, path: Path) -> None:
        """Add a whole file as long as it is now. Raises `FileNotFoundError`."""
        with path.open("rb") as file:
            self.add(name, file, os.fstat(file.fileno()).st_size)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add a member with that content."""
        self.add(name, io.BytesIO(content), len(content))

    def close(self) -> None:
        """End the archive."""
        self._tar.close()
        self._packed.close()  # type: ignore[no-untyped-call]


class _Unpacked:
    """The content of a zstd frame. Raises `Corrupted` if it is damaged or cut off, or if something follows it."""

    def __init__(self, file: _Reading) -> None:
        self._file, self._frame, self._left = file, zstandard.ZstdDecompressor().decompressobj(), bytearray()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none behind the end."""
        while len(self._left) < size or size < 0:
            block = self._file.read(_BLOCK_BYTES)
            if not block:
                if not self._frame.eof:
                    raise Corrupted("the backup is cut off")
                break
            if self._frame.eof:
                raise Corrupted("the backup is damaged: something follows its end")
            try:
                self._left += self._frame.decompress(block)
            except zstandard.ZstdError as error:
                raise Corrupted(f"the backup is damaged: {error}") from error
            if self._frame.unused_data:
                raise Corrupted("the backup is damaged: something follows its end")
        size = len(self._left) if size < 0 else size
        found = bytes(self._left[:size])
        del self._left[:size]
        return found


def extract(source: _Reading, folder: Path, passed: Callable[[str], object] = lambda name: None) -> BackupManifest:
    """Write the members below `folder` and return the manifest, once every byte was compared with it.

    Raises `Corrupted` for what is damaged, cut off, or not as the manifest says.
    """
    unpacked, found = _Unpacked(source), dict[str, Member]()
    manifest: BackupManifest | None = None
    try:
        with tarfile.open(fileobj=unpacked, mode="r|", bufsize=_BLOCK_BYTES) as tar:  # type: ignore[call-overload]
            for info in tar:
                content = tar.extractfile(info)
                if manifest is not None or content is None or not info.isfile() or not _is_below(info.name):
                    raise Corrupted(f"the backup is damaged: {info.name[:100]!r} has no place in it")
                if info.name == MANIFEST:
                    manifest = BackupManifest.model_validate_json(content.read(_MOST_MANIFEST_BYTES))
                    continue
                found[info.name] = _written(_Hashed(content, info.size), folder / info.name, info.size)
                passed(info.name)
        while unpacked.read(_BLOCK_BYTES):
            pass
    except (tarfile.TarError, ValidationError, EOFError) as error:
        raise Corrupted(f"the backup is damaged or cut off: {error}") from error
    if manifest is None:
        raise Corrupted("the backup is cut off: its manifest is missing")
    if found != manifest.members:
        wrong = sorted(
            one for one in found.keys() | manifest.members.keys() if found.get(one) != manifest.members.get(one)
        )
        raise Corrupted(f"the backup is damaged: {wrong[0]} is not what its manifest says")
    return manifest


def _written(content: _Hashed, path: Path, size_bytes: int) -> Member:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        while block := content.read(_BLOCK_BYTES):
            file.write(block)
    return Member(size_bytes=size_bytes, sha256=content.digest.hexdigest())


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)
