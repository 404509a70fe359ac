"""Keeps the certificate authority in the MutatingWebhookConfiguration: without it the API server trusts no answer."""

import base64
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs

_NOT_OURS = "the API server trusts another authority, which the replica that leads writes"
PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}"


class Registration:
    """The configuration of this name. `trouble`: why it could not be read or written last; None if it could."""

    def __init__(self, api: api_actions.Api, *, name: str) -> None:
        self._api = api
        self._path = PATH.format(name=name)
        self._line = logs.get("admission")
        self.trouble: str | None = "not checked yet"

    async def keep(self, authority: bytes, *, may_write: bool = True) -> bool:
        """Write the authority where another is, or none; return whether something was written."""
        try:
            others = await self._others(base64.b64encode(authority).decode(), may_write=may_write)
        except (errors.ApiError, errors.ApiUnavailable) as error:
            if self.trouble != str(error):
                self._line.warning("the webhook's configuration cannot be kept up to date", error=str(error))
            self.trouble = str(error)
            return False
        self.trouble = _NOT_OURS if others and not may_write else None
        return bool(others) and may_write

    async def _others(self, authority: str, *, may_write: bool) -> list[str]:
        """Return the webhooks that had another authority; it is replaced if it may be."""
        found: Any = await self._api.request("GET", self._path)
        webhooks = found.get("webhooks") or []
        others = [each["name"] for each in webhooks if (each.get("clientConfig") or {}).get("caBundle") != authority]
        if not others or not may_write:
            return others
        patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": authority}} for name in others]}
        await self._api.request("PATCH", self._path, body=patch, content_type=api_actions.STRATEGIC_PATCH)
        self._line.info("wrote the authority into the webhook's configuration", webhooks=others)
        return others
