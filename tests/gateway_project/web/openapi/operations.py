"""The operations of the API."""

PATHS = {
    "/v1/chat/completions": "post",
    "/v1/messages": "post",
    "/v1/messages/count_tokens": "post",
    "/v1/messages/quote": "post",
    "/v1/responses": "post",
    "/v1/responses/compact": "post",
    "/v1/responses/input_tokens": "post",
    "/v1/responses/quote": "post",
    "/v1/embeddings": "post",
    "/v1/quote": "post",
    "/v1/completions/{completion_id}": "get",
    "/v1/models": "get",
    "/v1/models/{model_id}": "get",
    "/v1/usage": "get",
    "/v1/usage/export": "get",
    "/v1/runs/{run_id}": "get",
    "/v1/key": "get",
    "/v1/generation": "get",
    "/api/billing/balance": "get",
    "/api/billing/ledger": "get",
    "/api/billing/ledger/proof": "get",
    "/api/billing/ledger.csv": "get",
    "/api/rankings": "get",
}
MANAGED = [
    *(("/api/keys", method) for method in ("get", "post")),
    *(("/api/keys/{key_id}", method) for method in ("get", "patch")),
    *((f"/api/keys/{{key_id}}/{act}", "post") for act in ("pause", "resume", "rotate", "revoke")),
]
STORED = [
    ("/v1/responses/{response_id}", "get"),
    ("/v1/responses/{response_id}", "delete"),
    ("/v1/responses/{response_id}/cancel", "post"),
    ("/v1/responses/{response_id}/input_items", "get"),
]
OPERATIONS = [*PATHS.items(), *STORED, *MANAGED]
