"""Routes for API keys, for operators of all corpora: who holds a key of some could make one of all."""

from __future__ import annotations

from fastapi import APIRouter, Request

from sluice.api.access import InstanceOperator, instance_of
from sluice.api.lists import whole
from sluice.api.problems import problems
from sluice.contracts.api import Page
from sluice.contracts.operations.keys import ApiKey, KeyLimits, MadeKey, NewKey

keys = APIRouter(prefix="/v1/keys", tags=["keys"])
ROUTERS = (keys,)


@keys.get("", responses=problems(503), summary="Every key, the revoked ones too")
def every(request: Request, _operator: InstanceOperator) -> Page[ApiKey]:
    """Return the keys without their secrets, the oldest first."""
    return whole(instance_of(request).keys.list())


@keys.post("", status_code=201, responses=problems(413, 503, 507), summary="Make a key")
def create(request: Request, body: NewKey, operator: InstanceOperator) -> MadeKey:
    """Make a key, and show its secret this once; recorded with who and when. The first key of an instance closes it to
    requests without one."""
    return instance_of(request).keys.make(body, operator.owner)


@keys.patch("/{key_id}", responses=problems(404, 409, 413, 503, 507), summary="Change a key's end and rate")
def change(request: Request, key_id: str, body: KeyLimits, operator: InstanceOperator) -> ApiKey:
    """Change what the body names, within two seconds everywhere; recorded with who and when. A revoked key stays so."""
    return instance_of(request).keys.change(key_id, body, operator.owner)


@keys.delete("/{key_id}", responses=problems(404, 503, 507), summary="Revoke a key")
def revoke(request: Request, key_id: str, operator: InstanceOperator) -> ApiKey:
    """Put the key out of force for good, within two seconds everywhere; recorded with who and when."""
    instance_of(request).keys.revoke(key_id, operator.owner)
    return instance_of(request).keys.one(key_id)
