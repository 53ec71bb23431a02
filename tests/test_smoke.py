def test_balance(api):
    reply = api.get("/api/billing/balance")
    assert reply.json() == {"balanceInCents": 1000, "balanceInDollars": 10.0}
