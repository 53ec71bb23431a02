"""Says to a payer why a payment that was made is not credited, and what becomes of its money. Pure."""

from billing.models import Payment
from billing.payments.processor import Report, printable
from gateway_project.text import dollars

# Currencies whose amounts Stripe does not give in hundredths. It gives ISK and UGX in hundredths, though they have none.
# https://docs.stripe.com/currencies#zero-decimal and #three-decimal
_WHOLE = ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
_DECIMALS = dict.fromkeys(_WHOLE, 0) | dict.fromkeys(("bhd", "jod", "kwd", "omr", "tnd"), 3)


def explain(payment: Payment, report: Report) -> str:
    """Return why the money of a report that contradicts its payment is not credited; '' if it tells of no money."""
    if payment.status == Payment.Status.PAID or report.status not in (Payment.Status.PAID, Payment.Status.PROCESSING):
        return ""
    if report.status == Payment.Status.PROCESSING:
        advice = "Ask your bank to stop it, or write to us with the payment ID: we can refund it once it has arrived."
    elif type(report.amount_cents) is int and 0 < report.amount_cents == report.refunded_cents:
        advice = "It was refunded to you."
    else:
        advice = "The money is with the payment processor. Write to us with the payment ID, and we refund it."
    return f"{_why(payment, report)} We did not add it to your balance. {advice}"


def _why(payment: Payment, report: Report) -> str:
    came = "Your bank is processing" if report.status == Payment.Status.PROCESSING else "We received"
    wanted, paid = _amount(payment.amount_cents, payment.currency), _amount(report.amount_cents, report.currency)
    if report.payment_id != str(payment.pk):
        return f"{came} a payment here that the payment processor reports as another one."
    if payment.currency != report.currency:
        return f"{came} {paid}, but this payment is for {wanted}: it must be in US dollars."
    if payment.amount_cents != report.amount_cents:
        return f"{came} {paid}, but this payment is for {wanted}."
    if payment.is_live != report.is_live:
        return f"{came} {paid}, but in the wrong mode of the payment processor, live or test."
    return f"{came} {paid}, but the records of the payment processor about it contradict each other."


def _amount(cents: object, currency: str) -> str:
    if type(cents) is not int:
        return "an unknown amount"
    if currency == "usd":
        return dollars.format_cents(cents)
    decimals = _DECIMALS.get(currency, 2)
    whole, part = divmod(cents, 10**decimals)
    return f"{whole:,}{f'.{part:0{decimals}}' if decimals else ''} {printable(currency, 3).upper()}"
