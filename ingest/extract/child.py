"""Reads one file of a foreign format in a process of its own: the file on standard input, JSON on standard output.

The process loads the format's reader, locks itself up (disk/jail.py: no network, no file beside this folder, nothing
written, limits of time and memory), and only then looks at the file. Of our packages it imports `disk.jail` and the
reader alone, so that it starts quickly and has nothing to lose. The answer is one object: what the reader returns, or
`{"failure": "encrypted" | "memory" | "characters" | "damaged", "detail": …}`. A file that exceeds its processor time
gets none: the kernel ends the process.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

from sluice.disk.jail import Limits, NoJail, close_in, limit


class TooMuchText(Exception):
    """The file holds more characters than allowed."""


class Encrypted(Exception):
    """The file can be read with a password only."""


def main(reader: str, cpu_seconds: str, address_space_bytes: str, *arguments: str) -> None:
    """Read the file within these limits by the module `reader` of this package, which gets the arguments, and answer.

    Such a module has `HAS_SOCKETPAIR` (see `close_in`), `load()`, which loads all that it needs without a thread of its
    own, and `read(body, *arguments)`.
    """
    body = sys.stdin.buffer.read()
    module = import_module(f"sluice.ingest.extract.{reader}")
    module.load()
    limits = Limits(int(cpu_seconds), int(address_space_bytes))
    try:
        close_in(os.path.dirname(os.path.abspath(__file__)), limits, (1, 2), has_socketpair=module.HAS_SOCKETPAIR)
    except NoJail:
        limit(limits)  # the system has no means for more
    try:
        answer = module.read(body, *arguments)
    except MemoryError:
        answer = {"failure": "memory", "detail": ""}
    except TooMuchText:
        answer = {"failure": "characters", "detail": ""}
    except Encrypted:
        answer = {"failure": "encrypted", "detail": ""}
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of the reader, it is the file
        answer = {"failure": "damaged", "detail": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)
