"""The text of an alert: as the JSON of webhooks, and in words for pages and mails. Pure."""

from datetime import UTC
from typing import Any, NamedTuple

from billing.models import AccountAlert
from gateway_project.text import compact_json, dollars

Kind = AccountAlert.Kind

TYPES = {
    Kind.BALANCE_LOW: "balance.low",
    Kind.KEY_NEAR_LIMIT: "key.limit_near",
    Kind.KEY_AT_LIMIT: "key.limit_reached",
    Kind.KEY_HOUR_UNUSUAL: "key.hour_unusual",
    Kind.RUN_NEAR_BUDGET: "run.budget_near",
    Kind.RUN_AT_BUDGET: "run.budget_reached",
    Kind.MONTH_NEAR_BUDGET: "budget.near",
    Kind.MONTH_AT_BUDGET: "budget.reached",
    Kind.TOP_UP_STOPPED: "top_up.stopped",
    Kind.PAYMENT_TAKEN_BACK: "payment.taken_back",
    Kind.PRICE_CHANGED: "price.changed",
    Kind.MODEL_ENDS: "model.ends",
    Kind.TEST: "test",
}


class Words(NamedTuple):
    """An alert for people: one line, and what explains it. Amounts are rounded."""

    title: str
    text: str


def message_id(alert: AccountAlert) -> str:
    """Return the id by which a receiver recognizes a repeated alert."""
    return f"warn_{alert.pk.hex}"


def encode(alert: AccountAlert) -> bytes:
    """Return the body of a webhook: the same bytes at every attempt."""
    return compact_json.dumps(
        {
            "type": TYPES[Kind(alert.kind)],
            "timestamp": alert.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "data": {"accountId": str(alert.account_id), **dict(_public(*item) for item in alert.data.items())},
        }
    )


def _public(name: str, value: Any) -> tuple[str, Any]:
    """Return a fact under its public name: amounts are strings in dollars, exact to the nanodollar."""
    if name.endswith("_nanos"):
        return f"{camel_case(name.removesuffix('_nanos'))}InDollars", dollars.format_plain(value)
    return camel_case(name), value.replace("+00:00", "Z") if name.endswith("_at") and value else value


def camel_case(name: str) -> str:
    """Return the name of a column as JSON has it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def describe(alert: AccountAlert) -> Words:
    """Return the alert in words."""
    usd = {name: dollars.show(value).shown for name, value in alert.data.items() if name.endswith("_nanos")}
    data = alert.data
    refused = f" The request needed up to {usd['needed_nanos']}." if "needed_nanos" in data else ""
    match Kind(alert.kind):
        case Kind.BALANCE_LOW:
            return Words(
                f"The balance fell below {usd['threshold_nanos']}",
                f"It was {dollars.show_floored(data['balance_nanos']).shown} then. Requests are refused when it is used up.",
            )
        case Kind.KEY_NEAR_LIMIT:
            return Words(f"{data['key_name']} has spent {data['percent']} % of its limit", _spent(data, usd))
        case Kind.KEY_AT_LIMIT if refused:
            return Words(f"{data['key_name']} was refused a request", f"{_spent(data, usd)}{refused}")
        case Kind.KEY_AT_LIMIT:
            return Words(f"{data['key_name']} has spent its limit", f"{_spent(data, usd)} Its requests are refused.")
        case Kind.KEY_HOUR_UNUSUAL:
            times = data["spent_nanos"] // data["usual_nanos"]
            return Words(
                f"{data['key_name']} spent {usd['spent_nanos']} in an hour, {times} times as much as usual",
                f"Its usual hour is up to {usd['usual_nanos']}. This one began at {data['starts_at'][11:16]} UTC."
                " Pause the key if you did not expect this.",
            )
        case Kind.RUN_NEAR_BUDGET | Kind.RUN_AT_BUDGET:
            share = f"{data['percent']} % of its budget" if data["percent"] < 100 else "its budget"
            did = "was refused a request" if refused else f"has spent {share}"
            spent = f"It spent {usd['spent_nanos']} of {usd['budget_nanos']} with the key {data['key_name']}."
            return Words(f"The run {data['run']} {did}", f"{spent}{refused}")
        case Kind.MONTH_NEAR_BUDGET | Kind.MONTH_AT_BUDGET:
            return Words(*_month(data, usd, refused))
        case Kind.TOP_UP_STOPPED:
            is_of_bank = data.get("cause", "declined") in ("declined", "confirmation")
            reason = f"The bank says: {data['reason']}" if is_of_bank else data["reason"]
            title = _TOP_UP_TITLES.get(data.get("cause", ""), "The automatic top-up stopped")
            return Words(title, f"{reason} {data.get('advice', '')}".strip())  # older alerts have no cause, and no advice
        case Kind.PAYMENT_TAKEN_BACK:
            return Words(
                f"A payment was taken back: {usd['amount_nanos']}", f"{data['reason']}. Your balance was reduced by it."
            )
        case Kind.PAYMENT_BOOKED:
            what = "Automatic top-up" if data["is_top_up"] else "Payment received"
            return Words(f"{what}: {usd['amount_nanos']}", _reason_and_balance(data))
        case Kind.CREDIT_BOOKED:
            return Words(f"Credit added: {usd['amount_nanos']}", _reason_and_balance(data))
        case Kind.CREDIT_TAKEN_BACK:
            return Words(f"Credit taken back: {usd['amount_nanos']}", _reason_and_balance(data))
        case Kind.PRICE_CHANGED:
            starts = f"{data['starts_at'][:16].replace('T', ' ')} UTC"
            is_withdrawn = data["direction"] == "withdrawn"
            text = f"It does not begin on {starts}: {data['change']}." if is_withdrawn else f"{data['change']}, from {starts}."
            return Words(f"{data['model']}{_DIRECTIONS[data['direction']]}", f"{text[0].upper()}{text[1:]}")
        case Kind.MODEL_ENDS:
            return Words(*_end(data))
        case Kind.CHANGES_SUMMED:
            alerts = [Words(*each) for each in data["words"]]
            text = "".join(f"\n\n{each.title}. {each.text}".rstrip() for each in alerts)
            return alerts[0] if len(alerts) == 1 else Words(f"{len(alerts)} changes of models that you used", text)
    return Words("A test", "A member sent it to see whether it arrives.")


_TOP_UP_TITLES = {
    "confirmation": "Confirm the automatic top-up",
    "month_maximum": "The automatic top-up reached its monthly maximum",
    "processor_silent": "The automatic top-up waits for the payment processor",
}
_DIRECTIONS = {"rise": " gets dearer", "fall": " gets cheaper", "withdrawn": ": the announced price is withdrawn"}


def _end(data: dict[str, Any]) -> tuple[str, str]:
    successor = f"Its successor is {data['successor']}." if data["successor"] else ""
    if data["ends_on"]:
        return f"{data['model']} ends on {data['ends_on']}", f"It may not reply from that day on. {successor}".rstrip()
    if successor:
        return f"{data['model']} has a successor", successor
    return f"{data['model']} stays", "The announced end is withdrawn."


def _month(data: dict[str, Any], usd: dict[str, str], refused: str) -> tuple[str, str]:
    whose = {
        "ACCOUNT": "of the account",
        "TAG": f"of keys with the tag {data['tag']}",
        "MEMBER": f"of the keys of {data['member']}",
    }[data["scope"]]
    if refused:
        title, ends = f"The monthly budget {whose} refused a request", "that do not fit are refused"
    elif data["percent"] < 100:
        title, ends = f"80 % of the monthly budget {whose} is spent", "will be refused from 100 %"
    else:
        title, ends = f"The monthly budget {whose} is spent", "are refused"
    until = f"until {data['resets_at'][:10]} at 00:00 UTC"
    what = f"Its requests {ends} {until}." if data["stops"] else "Requests continue: this budget only sends alerts."
    return title, f"{usd['spent_nanos']} of {usd['budget_nanos']} is spent.{refused} {what}"


def _reason_and_balance(data: dict[str, Any]) -> str:
    reason = f"Reason: {data['reason'].rstrip('.')}. " if data["reason"] else ""
    return f"{reason}Your balance was {dollars.show_floored(data['balance_nanos']).shown} then."


def _spent(data: dict[str, Any], usd: dict[str, str]) -> str:
    period = {"DAILY": " a day", "WEEKLY": " a week", "MONTHLY": " a month"}.get(data["period"], " in total")
    ends = f" It resets on {data['resets_at'][:10]} at 00:00 UTC." if data["resets_at"] else ""
    return f"It spent {usd['spent_nanos']} of {usd['limit_nanos']}{period}.{ends}"
