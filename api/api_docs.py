"""`/docs`: the interface's description in Swagger UI, without the internet.

Its files come from the package `fastapi-swagger`, which carries Swagger UI (Apache-2.0) as it is published; the rest of
that package is not used. A strict content security policy keeps the page to this origin.
"""

from __future__ import annotations

import json
from importlib.resources import files

import fastapi_swagger.resources
from fastapi import APIRouter, Request, Response

from sluice.contracts.errors import NotFound

router = APIRouter(include_in_schema=False)
ROUTERS = (router,)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Swagger UI draws its icons from `data:` addresses; it needs nothing else from outside its files."""
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript", "favicon-32x32.png": "image/png"}
START = "start.js"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice: the HTTP interface</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="docs"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: %s,
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
"""


@router.get("/docs")
def page() -> Response:
    """Return the page; the files that it loads are below `/docs/`."""
    return Response(_PAGE, media_type="text/html", headers=HEADERS)


@router.get("/docs/{name}")
def asset(request: Request, name: str) -> Response:
    """Return one of the page's files."""
    if name == START:
        script = _START % json.dumps(request.app.openapi_url)
        return Response(script, media_type="text/javascript", headers=HEADERS)
    if name not in ASSETS:
        raise NotFound(f"/docs has no file {name!r}")
    content = files(fastapi_swagger.resources).joinpath(name).read_bytes()
    return Response(content, media_type=ASSETS[name], headers={**HEADERS, "Cache-Control": "max-age=3600"})
