"""The words of real providers and of the clouds' libraries mean to an operator what they should."""

import pytest

from completions.catalog import provider_faults
from completions.providers.base import NO_CREDENTIAL


@pytest.mark.parametrize(
    ("status", "words", "is_about"),
    [
        # AWS.
        (
            403,
            "Signature expired: 20260101T000000Z is now earlier than 20260101T000500Z",
            "the clock of this host",
        ),
        (403, "Credential should be scoped to a valid region.", "another region or service"),
        (401, "Credential should be scoped to correct service: '...'.", "another region or service"),
        (403, "The security token included in the request is expired", "does not know the credentials of AWS"),
        (403, "The security token included in the request is invalid.", "does not know the credentials of AWS"),
        (403, "The request signature we calculated does not match the signature you provided.", "a wrong signature"),
        (403, "Authentication failed: Please make sure your API Key is valid.", "refuses the key"),
        (401, "Invalid bearer token", "refuses the key"),
        (403, "User: *** is not authorized to perform: bedrock:InvokeModel on resource: ***", "does not let it call models"),
        (403, "You don't have access to the model with the specified model ID.", "does not let this account use the model"),
        (400, "The provided model identifier is invalid.", "does not know the model"),
        (400, "model 'm' isn't supported on this route", "has nothing at"),
        (NO_CREDENTIAL, "NoCredentialsError: Unable to locate credentials", "AWS's library finds no credentials"),
        # Google.
        (NO_CREDENTIAL, "DefaultCredentialsError: Your default credentials were not found.", "Google's library finds no"),
        (NO_CREDENTIAL, "JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "not the JSON of a service account"),
        (NO_CREDENTIAL, "RefreshError: ('invalid_grant: Invalid grant: account not found', ...)", "refuses the secret"),
        (
            NO_CREDENTIAL,
            "RefreshError: ('invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable"
            " timeframe. Check your iat and exp values in the JWT claim.')",
            "the clock of this host",
        ),
        (404, "Publisher Model ... was not found or your project does not have access to it.", "does not know the model"),
        (403, "Permission '...' denied on resource '...' (or it may not exist).", "does not let it call models"),
        (403, "API key not valid. Please pass a valid API key.", "refuses the key"),
        (404, "models/gemini-9 is not found for API version v1beta", "does not know the model"),
        # Azure.
        (401, "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide", "refuses the key"),
        (401, "The token audience is incorrect (...)", "another audience"),
        (404, "The API deployment for this resource does not exist.", "does not know the model"),
        (404, "Resource not found", "has nothing at"),
        (400, "Missing required query parameter: api-version", "does not accept the api-version"),
        (NO_CREDENTIAL, "ManagedIdentityCredential: no response from the IMDS endpoint.", "Azure's library"),
        (NO_CREDENTIAL, "ClientAuthenticationError: AADSTS7000215: Invalid client secret provided.", "refuses the secret"),
        (NO_CREDENTIAL, "no credential arrived within 10 seconds", "no credential can be fetched"),
        # Others.
        (401, "Incorrect API key provided: ***.", "refuses the key"),
        (401, "You didn't provide an API key.", "finds no key in the request"),
        (401, "No auth credentials found", "finds no key in the request"),
        (401, "x-api-key header is required", "finds no key in the request"),
        (429, "You exceeded your current quota, please check your plan and billing details.", "no quota or credit left"),
        (400, "Your credit balance is too low to access the Anthropic API.", "no quota or credit left"),
        (402, "Insufficient Balance", "no quota or credit left"),
        (429, "Rate limit reached for requests", "takes no more requests now"),
        (404, "The model `m` does not exist or you do not have access to it.", "does not know the model"),
        (404, "model: claude-nine", "does not know the model"),
        (404, 'model "m" not found, try pulling it first', "does not know the model"),
        (400, "Model Not Exist", "does not know the model"),
        (400, "m is not a valid model ID", "does not know the model"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", "refuses the request itself"),
        (404, "Not Found", "has nothing at"),
        (400, "The plain HTTP request was sent to HTTPS port", "speaks TLS"),
        (None, "TimedOut: no head", "did not answer in time"),
        (None, "ConnectionBroken: closed", "closed the connection"),
        (503, "Loading model", "has a fault of its own"),
        (418, "short and stout", "failed"),
    ],
)
def test_words_have_their_meaning(status, words, is_about):
    assert is_about in provider_faults.find(status, words).is_about


def test_every_case_can_be_said():
    names = ("provider", "host", "url", "path", "model", "near", "command")
    facts = {name: f"<{name}>" for name in names}
    said = [(fault.is_about.format(**facts), fault.advice.format(**facts)) for fault in provider_faults.FAULTS]
    assert not [each for each in said if "{" in each[0] or not each[1].endswith((".", "?"))]
    assert "Store another: <command> set_provider_key <provider>." in " ".join(advice for _, advice in said)
