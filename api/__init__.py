"""The HTTP interface: `make_api` builds the FastAPI application, one module per subject."""

from sluice.api.app import make_api, serve

__all__ = ["make_api", "serve"]
