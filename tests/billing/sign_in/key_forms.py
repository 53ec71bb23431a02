"""The form of a new key, which needs a recent password."""

NEW_KEY = "/dashboard/keys/new/"


def key_form(account):
    return {"name": "“laptop” <b>\r\n", "spending_type": "NONE", "account": str(account.pk)}
