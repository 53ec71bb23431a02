"""What a deployment gets wrong about payments has a number."""

import pytest

from billing.payments import configuration

RIGHT = {
    "PAYMENT_PROCESSOR": "stripe",
    "STRIPE_SECRET_KEY": "sk_live_x",
    "STRIPE_WEBHOOK_SECRET": "whsec_x",
    "GATEWAY_DEVELOPMENT": False,
}


@pytest.mark.parametrize(
    ("wrong", "numbers"),
    [
        ({}, []),
        ({"PAYMENT_PROCESSOR": ""}, []),
        ({"PAYMENT_PROCESSOR": "paypal"}, ["E020"]),
        ({"STRIPE_SECRET_KEY": ""}, ["E020"]),
        ({"STRIPE_WEBHOOK_SECRET": ""}, ["E021"]),
        ({"PAYMENT_PROCESSOR": "demo"}, ["E022"]),
        ({"PAYMENT_PROCESSOR": "demo", "GATEWAY_DEVELOPMENT": True}, []),
        ({"PAYMENT_PRESETS_CENTS": [499]}, ["E023"]),
        ({"PAYMENT_CENTS_MIN": 2_000, "PAYMENT_CENTS_MAX": 1_000, "PAYMENT_PRESETS_CENTS": []}, ["E023"]),
        ({"STRIPE_SECRET_KEY": "sk_test_x"}, ["W020"]),
        ({"STRIPE_SECRET_KEY": "sk_test_x", "GATEWAY_DEVELOPMENT": True}, []),
    ],
)
def test_a_misconfiguration_of_payments_reports_its_number(settings, wrong, numbers):
    for name, value in {**RIGHT, **wrong}.items():
        setattr(settings, name, value)
    assert [found.id for found in configuration.check_payments()] == [f"gateway.{number}" for number in numbers]
