"""The APIs read numbers, booleans and text in query parameters alike."""

import pytest

from tests import chat

LEDGER, RANKINGS = "/api/billing/ledger", "/api/rankings"

WHOLE_NUMBERS = {"5": 5, "05": 5, "100": 100}
NO_WHOLE_NUMBERS = [
    "",
    " ",
    " 5",
    "5 ",
    "5\n",
    "+5",
    "-5",
    "-0",
    "5.0",
    "5.",
    "1e1",
    "0x5",
    "5_0",
    "5,0",
    "\uff15",  # a full-width digit
    "\uff11\uff10",
    "\u0665",  # an Arabic-Indic digit
    "\u00b2",  # a superscript
    "\u2164",  # a Roman numeral
    "five",
    "true",
    "null",
    "NaN",
    "[5]",
    '"5"',
    "5\x00",
    "0" * 5_000,
    "9" * 5_000,
]


BOOLEANS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
NO_BOOLEANS = [
    "",
    " ",
    "TRUE",
    "FALSE",
    "tRue",
    "yes",
    "no",
    "on",
    "off",
    "t",
    "f",
    "y",
    "n",
    "2",
    "01",
    "-1",
    "\uff11",
    " true",
    "null",
]


@pytest.mark.parametrize("path", [LEDGER, RANKINGS])
def test_ascii_digits_are_a_number(api, subtests, path):
    for text, number in WHOLE_NUMBERS.items():
        with subtests.test(text):
            body = api.get(path, {"limit": text, "offset": text}).json()
            page = body.get("pagination", body)
            assert (page["limit"], page["offset"]) == (number, number)


@pytest.mark.parametrize("param", ["limit", "offset"])
@pytest.mark.parametrize("path", [LEDGER, RANKINGS])
def test_other_text_is_no_number(api, subtests, path, param):
    for text in NO_WHOLE_NUMBERS:
        with subtests.test(repr(text[:12])):
            error = chat.assert_error(api.get(path, {param: text}), 400, "invalid_request_error", param)
            problem = "must not be empty." if text == "" else "must be an integer "
            assert error["message"].startswith(f"{param} {problem}")


@pytest.mark.parametrize("text", ["", "\uff15", "+5", "5.0", "0", "101", "9" * 5_000])
def test_both_apis_refuse_a_number_in_the_same_words(api, text):
    replies = [api.get(path, {"limit": text}) for path in (LEDGER, RANKINGS)]
    assert replies[0].status_code == 400
    assert replies[0].content == replies[1].content


@pytest.mark.parametrize(("text", "value"), BOOLEANS.items())
def test_a_boolean_is_written_as_in_json_as_in_python_or_as_a_digit(api, text, value):
    reply = api.get(RANKINGS, {"commercialOnly": text})
    assert reply.status_code == 200
    assert reply.content == api.get(RANKINGS, {"commercialOnly": "true" if value else "false"}).content


@pytest.mark.parametrize("text", NO_BOOLEANS)
def test_other_text_is_no_boolean(api, text):
    error = chat.assert_error(api.get(RANKINGS, {"commercialOnly": text}), 400, "invalid_request_error", "commercialOnly")
    assert error["message"] == f"commercialOnly must {'not be empty' if text == '' else 'be true or false'}."


@pytest.mark.parametrize(("path", "param"), [(LEDGER, "apiKey"), (RANKINGS, "search")])
def test_text_has_no_nul_characters(api, path, param):
    error = chat.assert_error(api.get(path, {param: "a\x00b"}), 400, "invalid_request_error", param)
    assert error["message"] == f"{param} must not contain NUL characters."


@pytest.mark.parametrize("path", [LEDGER, RANKINGS])
def test_of_a_repeated_parameter_the_last_value_counts(api, path):
    body = api.get(f"{path}?limit=nonsense&limit=7&limit=3").json()
    assert body.get("pagination", body)["limit"] == 3


@pytest.mark.parametrize("path", [LEDGER, RANKINGS])
def test_the_first_of_several_invalid_parameters_is_named(api, path):
    replies = {
        api.get(path, query).json()["error"]["param"]
        for query in ({"limit": "x", "offset": "x"}, {"offset": "x", "limit": "x"})
    }
    assert replies == {"limit"}
