"""The Python client of Sluice: the whole HTTP interface as typed calls, synchronous and for asyncio.

    from sluice_client import SluiceClient

    with SluiceClient("http://127.0.0.1:8080") as sluice:
        run = sluice.gate("how does heapq keep its invariant", corpus="python")
        print(run.answer.context)

Answers are models of `sluice_client.models`, errors classes of `sluice_client.errors`. It imports nothing of the
server. Modules are imported when they are first used: the package alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice_client import errors, models
    from sluice_client.client import AsyncSluiceClient, SluiceClient

__all__ = ["AsyncSluiceClient", "SluiceClient", "errors", "models"]


def __getattr__(name: str) -> Any:
    if name in ("errors", "models"):
        return import_module(f"{__name__}.{name}")
    if name in __all__:
        return getattr(import_module(f"{__name__}.client"), name)
    raise AttributeError(f"{__name__} has no {name}")
