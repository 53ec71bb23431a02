"""Entra ID's access keys, by azure-identity: for applications, workload identity, and managed identities of Azure."""

import time
from collections.abc import Mapping

from azure.identity import ClientSecretCredential, DefaultAzureCredential

from completions.providers.access.keeper import Bearer, Fetch, Fetched

# learn.microsoft.com/azure/ai-foundry/openai/how-to/managed-identity. For addresses with ``api-version``, older pages name
# https://cognitiveservices.azure.com/.default.
_SCOPE = "https://ai.azure.com/.default"


def make_fetch(auth: Mapping[str, str], key: str) -> Fetch:
    """Return what fetches for the secret ``key`` of an application; without one, for what Microsoft's library finds.

    It looks at AZURE_* variables, workload identity, then managed identity; ``client_id`` names one of several of these:
    https://learn.microsoft.com/python/api/azure-identity/azure.identity.defaultazurecredential.
    """

    def fetch() -> Fetched:
        with _credential(auth, key) as credential:  # a new one: each remembers what it fetched, and would return that again
            found = credential.get_token(auth.get("scope", _SCOPE))
        return Fetched.until_expiry(Bearer(found.token), found.expires_on - time.time())

    return fetch


def _credential(auth: Mapping[str, str], key: str) -> ClientSecretCredential | DefaultAzureCredential:
    if key:
        return ClientSecretCredential(auth["tenant_id"], auth["client_id"], key)
    identity = auth.get("client_id")
    return DefaultAzureCredential(managed_identity_client_id=identity, workload_identity_client_id=identity)
