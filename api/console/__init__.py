"""The console: pages for operators, at `/console`. A second face of the services that `/v1` calls, never SQL of its
own.

**A page** is a function in a module here, on a router made by `frame.pages()`, and a template. Its first parameter
says who may see it: `Visiting` (who is signed in), `Operating` (operators; of some corpora too), `OperatingAll`
(operators of all corpora). It reads by `visit.instance`'s services with `visit.caller`, and returns `visit.show(…)`:

    dead = pages()

    @dead.get("/dead")
    def groups(visit: Operating, before: str | None = None) -> Response:
        ...
        return visit.show("dead.html", groups=found, before=next_position)

    ROUTERS = (dead,)

Put the module into `MODULES` below, and the page into `frame.NAVIGATION` if every page should lead to it. The template
begins with `{% extends "base.html" %}{% import "ui.html" as ui with context %}` and fills the blocks `title` and
`main`; `templates/ui.html` has what pages are made of (`link`, `to`, `moment`, `badge`, `figure`, `table`, `empty`,
`paging`, `action`, `field`), `words.py` the filters. No `style=`, no `hx-on`, no address from outside but by `ui.link`:
bars are SVG, whose `x` and `width` are attributes. Errors of the tree become pages by themselves; so does an absent
ledger.

**An action** is a POST on the same kind of router: `visit.form` has its fields (`.get`, `.getlist`), the session's
token was checked, and `visit.done("crawl is paused.")` leads back to the page of the form, which says so. Raise
`InvalidInput(field, problem)`: the form is shown again, with the message by the field. The service that carries it out
records it under `visit.caller.owner`. In the template: `ui.action(path, words, id=…)`, or with fields by `call`.

**Looking** at a payload, a held text or a memory is an action: call `visit.looked("payload_read", "letter:…")` before
it is read.

**Figures that change** while somebody looks: one stream a page.

    @streamed("dead", "dead_figures.html", needs=lambda visit, _: visit.caller.may_operate(), seconds=5)
    def figures(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]: ...

The page includes the same template in `{% call ui.live("dead") %}{% include "dead_figures.html" %}{% endcall %}`. A
fragment has no `hx-` attribute and no form (the guard strips them from a stream), and does not use `visit`; what
changes in it has an id. The function is called once a period for all who watch.
"""

from __future__ import annotations

from types import ModuleType

from sluice.api.console import (
    administration,
    assets,
    corpora,
    crawl,
    dead,
    evidence,
    figures,
    gate,
    hub,
    knowledge,
    overview,
    run,
    runs,
    sessions,
)

MODULES: tuple[ModuleType, ...] = (
    *(sessions, hub, overview, runs, run, evidence, dead),
    *(crawl, corpora, gate, knowledge, administration, figures),
)
"""Modules with pages."""
ROUTERS = (assets.assets, *(router for module in MODULES for router in module.ROUTERS), sessions.LAST)
