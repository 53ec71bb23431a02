"""The meaning of a provider's failure for an operator, and the advice for it, by status and words. Pure.

The words are of the provider, of a cloud's library, or of this host's network (``net.http``). The first case that fits counts.
"""

import re
from collections.abc import Container
from typing import NamedTuple

from completions.providers.base import NO_CREDENTIAL

NO_STATUS = 999  # of a provider that sent none
_ANY, _NONE = range(NO_STATUS + 1), (NO_CREDENTIAL,)


class Fault(NamedTuple):
    """``is_about``: a predicate of the provider. Both texts may have facts in braces: the names provider, host, url and model,
    ``near``, a sentence about its list, ``path``, one about the address, and ``command``, the gateway's.
    """

    words: str
    is_about: str
    advice: str
    statuses: Container[int] = _ANY


_STORE = "Store another: {command} set_provider_key {provider}."
_FIND = "for the user who runs the gateway, on each host"
_CORRECT = "{path}Correct base_url, or state its path in paths of the catalog file."
_RIGHT = "The key and the address are right."
FAULTS = (
    Fault(
        r"clock of this host is|signature (?:expired|not yet current)|used too (?:early|late)|reasonable timeframe"
        r"|not within its valid time range|AADSTS700024",
        "does not accept the time: the clock of this host is wrong",
        "Set it. timedatectl says whether it follows a time server.",
    ),
    # This host and its network.
    Fault(
        r"GATEWAY_PRIVATE_UPSTREAMS",
        "is in a private network, which is not permitted",
        "If it is your own server, add its network to GATEWAY_PRIVATE_UPSTREAMS, and restart.",
    ),
    Fault(
        r"name or service not known|in name resolution|no address associated|nodename nor servname|name was not resolved",
        "has a host that no name server knows, {host}",
        "Correct base_url, also the region in it. If `getent hosts {host}` finds it, look at this host's network.",
    ),
    Fault(
        r"WRONG_VERSION_NUMBER|record layer failure|UNEXPECTED_EOF|handshake operation timed out",
        "does not speak TLS at this port",
        "Write http:// in base_url if it is your own server, or another port.",
    ),
    Fault(r"plain HTTP|HTTP request to an HTTPS", "speaks TLS at this port", "Write https:// in base_url.", (400,)),
    Fault(
        r"certificate verify failed|its certificate is not valid",
        "has a certificate that is not accepted",
        "The host in base_url must be one of the certificate's. If your own authority made it, set SSL_CERT_FILE to a file with"
        " all authorities.",
    ),
    Fault(
        r"^(?:ConnectFailed|LocalFault)|cannot be reached",
        "cannot be reached from this host",
        "Does it run, is the port right, does a firewall let this host out? `curl -v {url}` tries the same.",
    ),
    Fault(r"^(?:TimedOut|GivenUp|NotSent)|sent nothing for", "did not answer in time", "Repeat this."),
    Fault(r"^ConnectionBroken|broke off", "closed the connection", "If its port speaks TLS, base_url begins with https://."),
    # Credentials that were not fetched.
    Fault(
        r"NoCredentialsError|ProfileNotFound",
        "was not asked: AWS's library finds no credentials",
        f"Give the machine a role, or set AWS_PROFILE or AWS_ACCESS_KEY_ID with its secret, {_FIND}.",
        _NONE,
    ),
    Fault(
        r"DefaultCredentialsError",
        "was not asked: Google's library finds no credentials",
        f"Give the machine a service account, or set GOOGLE_APPLICATION_CREDENTIALS, {_FIND}. Or store the JSON of a service"
        " account: {command} set_provider_key {provider}.",
        _NONE,
    ),
    Fault(
        r"JSONDecodeError|not in the expected format|MalformedError|could not deserialize",
        "was not asked: its key is not the JSON of a service account",
        _STORE,
        _NONE,
    ),
    Fault(
        r"invalid_grant|account not found|invalid_client|AADSTS7000215|AADSTS7000222|AADSTS700016|AADSTS90002",
        "was not asked: the cloud refuses the secret of the credential",
        f"It is deleted, disabled, expired or of another tenant. {_STORE}",
        _NONE,
    ),
    Fault(
        r"(?:Environment|Identity)Credential: |managed identity",
        "was not asked: Azure's library finds no credentials",
        f"Give the machine a managed identity, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, {_FIND}.",
        _NONE,
    ),
    Fault(
        r"",
        "was not asked: no credential can be fetched",
        "Its words, and auth in the file, say why.",
        _NONE,
    ),
    # Our account.
    Fault(
        r"insufficient[_ ](?:quota|balance|funds|credits?)|exceeded your current quota|credit balance|billing|payment required"
        r"|good standing|ServiceQuotaExceeded",
        "has no quota or credit left for this account",
        f"Pay or ask for more at the provider. {_RIGHT}",
        (400, 401, 402, 403, 429),
    ),
    Fault(r"", "has no credit left for this account", f"Pay at the provider. {_RIGHT}", (402,)),
    Fault(r"", "takes no more requests now", f"Repeat this later, or ask for a higher limit. {_RIGHT}", (429,)),
    Fault(
        r"credential should be scoped",
        "wants a signature for another region or service",
        "Leave region and service out of auth if the host in base_url has them; otherwise they are those of the address.",
        (401, 403),
    ),
    Fault(
        r"security token included in the request is|ExpiredToken|UnrecognizedClient",
        "does not know the credentials of AWS, or they have expired",
        f"Renew them {_FIND}. `aws sts get-caller-identity` says whose they are.",
        (401, 403),
    ),
    Fault(
        r"signature we calculated does not match",
        "finds a wrong signature",
        "The secret access key is wrong, or a proxy before AWS changes requests.",
        (401, 403),
    ),
    Fault(
        r"make sure your API key is valid|invalid bearer token",
        "refuses the key",
        f"A key of Bedrock is of one region, which base_url must name. {_STORE}",
        (401, 403),
    ),
    Fault(
        r"audience is incorrect",
        "wants a credential for another audience",
        'Write it as scope into auth: "https://cognitiveservices.azure.com/.default" for addresses with api-version.',
        (401, 403),
    ),
    Fault(
        r"\bapi-version|query parameter|api version not",
        "does not accept the api-version",
        'Azure\'s addresses with deployments need query = {{ api-version = "2024-10-21" }}, those with /openai/v1 none.',
        (400, 404),
    ),
    # Models and addresses.
    Fault(
        r"\b(?:models?|deployment)\b.{0,120}(?:not found|not exist|unknown|not supported|not available|is invalid)|模型不存在"
        r"|(?:not found the|no such|unknown|invalid|unable to access|not a valid) model|^model: ",
        "does not know the model {model}",
        "{near}upstream_model of the route is the provider's name of it; at Azure, the name of its deployment.",
        (400, 403, 404, 422),
    ),
    Fault(
        r"access (?:to )?(?:the |this )?model",
        "does not let this account use the model {model}",
        "{near}Ask for access to it in the provider's console, or write another upstream_model.",
        (401, 403),
    ),
    Fault(
        r"not authorized to perform|permission.{0,80}denied|data action|(?:principal|identity) does not have access",
        "knows the credential, and does not let it call models",
        "Give it a role: with bedrock:InvokeModel, Vertex AI User, or Cognitive Services User.",
        (401, 403),
    ),
    Fault(
        r"(?:missing|\bno\b|n[o']t provide an?|without|must provide).{0,30}(?:api[ -]?key|auth|bearer|credential|token)"
        r"|header (?:is |was )?(?:required|missing|not found)",
        "finds no key in the request",
        "Give it one: {command} set_provider_key {provider}. If it has one, name the header in the catalog file:"
        ' auth = {{ type = "header", name = "api-key" }}.',
        (401, 403),
    ),
    Fault(r"", "refuses the key", f"Is it of this provider and region, and not revoked? {_STORE}", (401,)),
    Fault(r"api[ -]?key|authenticat|unauthori[sz]ed", "refuses the key", f"Is it of this provider? {_STORE}", (403,)),
    Fault(r"", "redirects, which the gateway does not follow", "Write where it leads to as base_url.", range(300, 400)),
    Fault(r"", "has nothing at {url}", _CORRECT, (404, 405, 501)),
    Fault(r"on this route|unknown (?:url|path|endpoint)|invalid url", "has nothing at {url}", _CORRECT, (400, 403)),
    Fault(
        r"^(?:UnusableResponse|InBandError|EventTooLarge)|sent a list",
        "answers in another format",
        "Is it of the kind in the catalog file, and is base_url the address of its API rather than of its pages?",
    ),
    Fault(r"", "forbids the request", "What may the key do, and from which regions and addresses?", (403,)),
    Fault(r"", "has a fault of its own", "Look at its status page, or at its log if it is your server.", range(500, 600)),
    Fault(r"", "refuses the request itself", f"Does the model need rules in the catalog file? {_RIGHT}", (400, 413, 422)),
    Fault(r"", "failed", "Its words say why."),
)


def find(status: int | None, words: str) -> Fault:
    """Return what a failure means, of a ``status`` that may be NO_CREDENTIAL."""
    sought = NO_STATUS if status is None else status
    return next(fault for fault in FAULTS if sought in fault.statuses and re.search(fault.words, words, re.IGNORECASE))
