"""From findings to a verdict: one reason warns, two independent ones block."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.trust import Finding, Verdict

MODEL = "model"
SUBMITTED = "submitted"
_COMMANDS = frozenset(("override", "role-mark", "exfiltrate", "conceal", "tool-call", "address"))


def reason(rule: str) -> str:
    """The kind of reason that a rule gives: `override.en` and `persona` are one reason, not two."""
    head = rule.split(".", 1)[0]
    return "override" if head == "persona" else head


def decide(findings: Sequence[Finding], *, submitted: bool, about_attacks: bool) -> Verdict:
    """The verdict on a chunk (docs/decisions/0017-guard.md).

    Blocked: a rule's command, and a second reason of another kind: another command, a hidden channel, the model, or
    that a caller submitted the text and it commands to override. A text about attacks is never blocked, only warned.
    """
    reasons = {reason(finding.rule) for finding in findings}
    if not reasons:
        return Verdict.PASSED
    commands = reasons & _COMMANDS
    second = len(reasons) > 1 or (submitted and "override" in commands)
    return Verdict.BLOCKED if commands and second and not about_attacks else Verdict.WARNED
