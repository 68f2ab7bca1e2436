"""How questions about relations are worded: each kind in several ways, as people and agents ask.

Of each question one wording is drawn, always the same one, so that no figure hangs on one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "named test → code": (
        "where is the implementation that {} exercises?",
        "why does {} fail?",
        "{} is red in CI, which code should I look at",
        "what is under test in {}?",
        "code checked by `{}`",
    ),
    "named → callers": (
        "callers of {}",
        "who calls {}?",
        "where is {} used?",
        "what breaks if I change the signature of {}?",
        "find usages of `{}`",
        "which code depends on {}?",
    ),
    "named → callees": (
        "what does {} call?",
        "which helpers does {} rely on?",
        "functions invoked by `{}`",
        "dependencies of {}",
    ),
    "named → base": (
        "docs for {}'s base class",
        "what does {} inherit from?",
        "parent class of `{}`",
        "which class does {} extend?",
    ),
    "named → subclasses": (
        "subclasses of {}",
        "which classes extend {}?",
        "implementations of the `{}` interface",
        "what is derived from {}?",
    ),
    "named → tests": (
        "which tests cover {}?",
        "tests for `{}`",
        "is {} tested anywhere?",
        "where is the behaviour of {} verified",
    ),
    "named → pages": (
        "where do the docs talk about {}?",
        "documentation page that mentions `{}`",
        "guide that explains {}",
    ),
    "page → pages linking": (
        'which pages link to "{}"?',
        'where is the page "{}" referenced in the docs?',
        "what points readers to {}",
    ),
    "page → pages linked": (
        'what does the page "{}" link to?',
        'further reading from "{}"',
        "which pages should I read after {}",
    ),
    "told test → code": (
        "which code does the test exercise that checks this: {}",
        "the test about {} fails, where is the bug?",
        "implementation behind the test case: {}",
        "{} - what function is being tested here?",
    ),
    "told → callers": (
        "who calls the function that does this: {}",
        "where is the code used which does the following: {}",
        "callers of the routine described as: {}",
        "{} - what relies on this?",
    ),
    "told → callees": (
        "which helper is called by the code that does this: {}",
        "what does the function use internally whose job is: {}",
        "{} - what is it built on?",
        "callees of the routine described as: {}",
    ),
    "told → tests": (
        "which test covers the code that does this: {}",
        "where is this tested: {}",
        "tests of the function described as: {}",
    ),
    "told → base": (
        "what is the parent of the class described as: {}",
        "base class of this one: {}",
        "{} - which class does it extend?",
    ),
    "told → page": (
        "which documentation page mentions the code that does this: {}",
        "docs about the function described as: {}",
        "where in the guide is this referred to: {}",
    ),
    "sentence → page": (
        "what page does the documentation link where it says: {}",
        "{} - where can I read more about it?",
        "the linked page for: {}",
    ),
    "test → code → callee": (
        "what does the code call that is tested by this test: {}",
        "the test about {} fails inside a helper of the tested function, which helper?",
        "{} - find what the tested code depends on",
    ),
    "page → page → page": (
        "what is linked from the page that is linked where it says: {}",
        "two links further from where the docs say: {}",
    ),
    "direct, told": ("{}", "how do I {}", "function that does this: {}"),
    "direct, named": ("where is {} defined?", "how does {} work?", "show me `{}`", "{} source code", "explain {}"),
    "direct, words": ("code for {}", "where is {} implemented?", "{}"),
}


def worded(kind: str, told: str) -> str:
    """The question of a kind about what is told, in the wording that is drawn for it."""
    ways = WORDINGS[kind]
    drawn = int.from_bytes(hashlib.sha256(f"{kind} {told}".encode()).digest()[:4], "big")
    return ways[drawn % len(ways)].format(told)
