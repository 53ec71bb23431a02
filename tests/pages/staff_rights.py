"""What each ready group of staff may do."""

# What each group may do on the pages of each model. "view" is the list, an object's page and its history; "change" saves it.
_MONEY_SEEN = {"billing.ledgerentry": "view", "billing.hold": "view"}
_PAYMENTS = ("payment", "paymentevent", "paymentdifference", "billingdetails", "topuprule")
_PAYMENTS_SEEN = {f"billing.{name}": "view" for name in _PAYMENTS}
_COSTS_SEEN = {f"completions.{name}": "view" for name in ("completion", "completionhour", "languagemodel", "price")}
_COSTS_SEEN["completions.completion"] = "view compare"
_OF_KEYS_SEEN = ("spendingday", "refusalcount", "refusedrequest", "managementkey", "formersecret")
_REFUSALS_SEEN = {f"keys.{name}": "view" for name in _OF_KEYS_SEEN}
_CATALOG_SEEN = {f"completions.{name}": "view" for name in ("languagemodel", "price", "completionhour", "upstreamlist")}
_CATALOG_SEEN["completions.routablealias"] = "view"
_RANKINGS_SEEN = {f"rankings.{name}": "view" for name in ("snapshot", "standing", "entry", "dailyrank", "publication")}
_PRICES_DECIDED = {
    "completions.pricerequest": "view approve decline",
    "completions.providerprice": "view add change",
    "completions.providerday": "view",
}
_BILLS_SEEN = {f"completions.{name}": "view" for name in ("bill", "billcomparison", "billedmodel")}
_NAMES_ON_BILLS_SAID = {**_BILLS_SEEN, "completions.billedmodel": "view add change delete"}
_SUPPORT = {
    **_MONEY_SEEN,
    **_COSTS_SEEN,
    **_REFUSALS_SEEN,
    "billing.account": "view month credit password_link lost_phone hand_over",
    "billing.secondfactorrequest": "view",
    "billing.payment": "view",
    "billing.creditrequest": "view",
    "billing.invitation": "view",
    "billing.signinlimit": "view unblock",
    "keys.apikey": "view trial limit raise rates revoke",
    "completions.incident": "view",
    "completions.provider": "view",
    "completions.route": "view",
    "activity.activity": "view",
}
MAY = {
    "Support": _SUPPORT,
    "Support lead": {
        **_SUPPORT,
        "billing.account": "view month credit password_link lost_phone hand_over change correct close reopen",
        "billing.secondfactorrequest": "view approve decline",
        "billing.creditrequest": "view approve decline",
        "billing.user": "view change send_password_links remove_second_factors",
        "billing.membership": "view",
        "completions.incident": "view add change",
        "billing.ownerrequest": "view",
        "billing.passwordlink": "view",
    },
    "Finance": {
        **_MONEY_SEEN,
        **_COSTS_SEEN,
        **_PRICES_DECIDED,
        **_NAMES_ON_BILLS_SAID,
        "completions.bill": "view import delete",
        "billing.account": "view month purchase correct refund close reopen closing_refund hand_over",
        **_PAYMENTS_SEEN,
        "billing.creditrequest": "view approve decline",
        "activity.activity": "view export",
    },
    "Catalogue": {
        **_CATALOG_SEEN,
        **_RANKINGS_SEEN,
        **_PRICES_DECIDED,
        **_NAMES_ON_BILLS_SAID,
        "completions.languagemodel": "view add change price withdraw",
        "completions.provider": "view",
        "completions.route": "view change call",
        "completions.catalogproposal": "view approve dismiss approve_selected dismiss_selected",
        "rankings.snapshot": "view publish_held",
        "rankings.alias": "view add change delete queue",
        "rankings.profile": "view add change delete",
        "rankings.sourcestate": "view refresh_now",
        "activity.activity": "view",
    },
    "Operator": {
        **_CATALOG_SEEN,
        **_COSTS_SEEN,
        **_RANKINGS_SEEN,
        **_REFUSALS_SEEN,
        "billing.account": "view add hand_over",
        "billing.hold": "view",
        "billing.signinlimit": "view unblock",
        "billing.user": "view add change send_password_links remove_second_factors",
        "billing.membership": "view delete",
        "billing.ownerrequest": "view approve decline",
        "billing.passwordlink": "view revoke",
        "billing.invitation": "view",
        "auth.group": "view",
        "keys.apikey": "view trial revoke",
        "completions.provider": "view add change forget_refusals",
        "completions.route": "view change call",
        **dict.fromkeys(_PRICES_DECIDED, "view"),
        **_BILLS_SEEN,
        "completions.bill": "view import",
        "completions.catalogproposal": "view",
        "completions.idempotentrequest": "view",
        "completions.incident": "view add change",
        "rankings.alias": "view",
        "rankings.snapshot": "view publish_held",
        "rankings.profile": "view",
        "rankings.sourcestate": "view refresh_now",
        "activity.activity": "view export",
    },
}
