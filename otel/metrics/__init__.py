"""Every metric of Sluice, declared once: its name with its unit, its labels and one sentence.

Several processes make one instance. When `PROMETHEUS_MULTIPROC_DIR` names a directory before this package is imported
(see `otel.settings`), each process keeps its figures in files there and `negotiate_metrics` adds them up; without
it the figures are this process's own. Label values come from small fixed sets: stages, kinds, plans, outcomes, routes;
never a URL, a query or an id. Success has the outcome `ok` (pages, search calls) or `Done` (events): the dashboards and
alerts count everything else as failed, except pages that are `unchanged`, or `refused` by a rule.

They are declared in `table`, and reached as `otel.metrics.NAME`.
"""

from sluice.otel.metrics.exposition import *  # noqa: F403
from sluice.otel.metrics.registry import REGISTRY as REGISTRY
from sluice.otel.metrics.registry import current_exemplar as current_exemplar
from sluice.otel.metrics.table import *  # noqa: F403
