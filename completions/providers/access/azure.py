"""Entra ID's access keys, by azure-identity: for applications, workload identity, and managed identities of Azure."""

import os
import time
from collections.abc import Mapping
from typing import Any

from azure.core.exceptions import ClientAuthenticationError
from azure.identity import ClientSecretCredential, DefaultAzureCredential

from completions.providers.access.keeper import Bearer, CredentialUnavailable, Fetch, Fetched

# learn.microsoft.com/azure/ai-foundry/openai/how-to/managed-identity. For addresses with ``api-version``, older pages name
# https://cognitiveservices.azure.com/.default.
_SCOPE = "https://ai.azure.com/.default"
_TIMEOUTS = {"connection_timeout": 10, "read_timeout": 30}  # not 300 s, the time ahead of an expiry
# They start programs of a developer, each for seconds. AZURE_TOKEN_CREDENTIALS=dev has them.
_TOOLS = ("broker", "cli", "developer_cli", "powershell", "shared_token_cache", "visual_studio_code")


def make_fetch(auth: Mapping[str, str], key: str) -> Fetch:
    """Return what fetches for the secret ``key`` of an application; without one, for what Microsoft's library finds.

    It looks at AZURE_* variables, workload identity, then managed identity; ``client_id`` names one of several of these:
    https://learn.microsoft.com/python/api/azure-identity/azure.identity.defaultazurecredential.
    """

    def fetch() -> Fetched:
        try:
            with _credential(auth, key) as credential:  # a new one: each remembers what it fetched, and would return that again
                found = credential.get_token(auth.get("scope", _SCOPE))
        except ClientAuthenticationError as error:  # of several, the last one that was tried says why
            raise CredentialUnavailable(error.message.rpartition("\n\t")[2].partition("\nTo mitigate")[0]) from error
        return Fetched.until_expiry(Bearer(found.token), found.expires_on - time.time())

    return fetch


def _credential(auth: Mapping[str, str], key: str) -> ClientSecretCredential | DefaultAzureCredential:
    if key:
        return ClientSecretCredential(auth["tenant_id"], auth["client_id"], key, **_TIMEOUTS)
    identity, is_chosen = auth.get("client_id"), "AZURE_TOKEN_CREDENTIALS" in os.environ
    options: dict[str, Any] = {} if is_chosen else {f"exclude_{tool}_credential": True for tool in _TOOLS}
    if identity:  # otherwise that of AZURE_CLIENT_ID, if there is one
        options |= {"managed_identity_client_id": identity, "workload_identity_client_id": identity}
    return DefaultAzureCredential(**options, **_TIMEOUTS)
