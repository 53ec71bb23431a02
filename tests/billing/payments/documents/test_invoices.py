"""All that an invoice says is on its paper: whole, within the margins, in the order in which it is read."""

import re
import unicodedata
from collections import Counter
from io import BytesIO

import pytest
from PIL import ImageChops
from reportlab.pdfgen.canvas import Canvas

from billing.payments.documents import fonts, invoices
from tests.billing.payments.documents.papers import PIXELS_PER_POINT, boxes, pictures, texts

WIDTH, HEIGHT, MARGIN = 595, 842, 56

ARABIC = "شركة النور (الشرق الأوسط) 12 [ش.م.م]"

NAMES = {
    "1 letter": "a",
    "50 letters": "abcdefghi " * 5,
    "71 letters": "a" * 71,
    "120 letters with blanks": "Incorporated " * 9 + "End",
    "120 letters without blanks": "abcdefghijkl" * 10,
    "300 wide letters": "W" * 300,
    "300 narrow letters": "i" * 300,
    "a short word before a long one": "The " + "Gesellschaft" * 20 + " mbH",
    "no-break spaces": "Example\N{NO-BREAK SPACE}GmbH " * 20,
    "ideographic spaces": "サンプル\N{IDEOGRAPHIC SPACE}" * 30,
    "letters of markup": "<b>A & B</b> &amp; <font> " * 10,
    "all accents": "Zażółć gęślą jaźń " * 15,
    "Greek": "Ελληνική Έκθεση " * 15,
    "Cyrillic": "ООО «Ромашка» " * 20,
    "Arabic with brackets and digits": ARABIC,
    "long Arabic with brackets and digits": f"{ARABIC} " * 8,
    "Arabic without blanks": "شركةالنور" * 33,
    "Persian": "گروه پژوهش (ایران) ۱۲۳ " * 10,
    "Urdu": "ہندوستان ٹیکسٹائل (لاہور) " * 10,
    "Hebrew": 'חברת האור (ישראל) בע"מ 12 ' * 10,
    "Hebrew without blanks": "חברתהאור" * 37,
    "Latin, then Hebrew": "Example (חברת [האור]) Ltd " * 10,
    "Hebrew, then Latin": "חברת (Example [Light]) 12 " * 10,
    "Arabic, Chinese and Latin": "شركة 北京 (Beijing) Żółć " * 12,
    "marks of direction": "\N{RIGHT-TO-LEFT ISOLATE}شركة (ABC)\N{POP DIRECTIONAL ISOLATE} \N{RIGHT-TO-LEFT MARK}12 " * 12,
    "100 Chinese letters": "北京市朝阳区" * 17,
    "Japanese": "サンプル株式会社" * 30,
    "Korean": "주식회사 하나 " * 40,
    "emoji": "Smile \N{GRINNING FACE}\N{HEAVY BLACK HEART}\N{VARIATION SELECTOR-16} " * 30,
    "Thai": "บริษัท" * 40,
}


def write(**changed):
    wanted: dict[str, object] = {
        "title": "Invoice 1",
        "facts": [("Paid", "28 Nov 2026")],
        "seller": ["Gateway Ltd"],
        "customer": ["Example GmbH"],
        "rows": [("Credit", "$1.00"), ("Total in US dollars", "$1.00")],
        "notes": [],
    }
    return invoices.write(invoices.Invoice(**{**wanted, **changed}))


def everywhere(name):
    """Write an invoice that says a name at every place."""
    return write(
        title=name, facts=[(name, name)], seller=[name], customer=[name], rows=[(name, name), (name, "$1.00")], notes=[name]
    )


def letters(text):
    """Count the letters, Arabic ones in their plain forms, brackets as they are paired when they are read."""
    return Counter(character for character in unicodedata.normalize("NFKC", text) if not character.isspace())


def printed(name):
    """Return the name as it is printed: with question marks for letters that no font has."""
    seen = re.sub(r"[\N{VARIATION SELECTOR-1}-\N{VARIATION SELECTOR-16}]", "", unicodedata.normalize("NFC", name))
    return "".join(part for _, part in fonts.set_in_fonts(seen, fonts.REGULAR))


def stays_within_the_margins(content):
    for left, bottom, right, top in boxes(content):
        assert left >= MARGIN - 1
        assert right <= WIDTH - MARGIN + 1
        assert bottom >= MARGIN - 1
        assert top <= HEIGHT - MARGIN + 1
    for picture in pictures(content):
        ink = picture.getbbox()
        assert ink
        left, top, right, bottom = (edge / PIXELS_PER_POINT for edge in ink)
        assert left >= MARGIN - 1
        assert right <= WIDTH - MARGIN + 1
        assert bottom <= HEIGHT - MARGIN + 1
        assert top >= MARGIN - 1
    return True


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_all_letters_of_a_name_are_within_the_margins_wherever_it_stands(name):
    content = everywhere(name)
    wanted = Counter({letter: 9 * count for letter, count in letters(printed(name)).items()})
    assert letters("".join(texts(content))) == wanted + letters("FromFor$1.00")
    assert stays_within_the_margins(content)
    assert everywhere(name) == content


@pytest.mark.parametrize("count", [*range(1, 301, 23), 300])
def test_names_of_any_length_are_within_the_margins(count):
    content = write(customer=["Wi " * (count // 3) + "W" * (count % 3)])
    assert letters("".join(texts(content)))["W"] == count // 3 + count % 3
    assert stays_within_the_margins(content)


ADDRESSES = {"12 lines": 12, "30 lines": 30, "39 lines": 39, "40 lines": 40, "45 lines": 45, "200 lines": 200}


@pytest.mark.parametrize("count", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_of_many_lines_has_further_pages(count):
    lines = [f"Line {number:03d}" for number in range(count)]
    content = write(customer=lines, seller=[f"Seller {line}" for line in lines])
    assert [text for text in texts(content) if text.startswith("Line")] == lines
    assert [text for text in texts(content) if text.startswith("Seller")] == [f"Seller {line}" for line in lines]
    assert texts(content)[-4:] == ["Credit", "$1.00", "Total in US dollars", "$1.00"]
    assert len(pictures(content)) == 1 + (count > 35) + 3 * (count > 100)
    assert stays_within_the_margins(content)


def test_an_empty_line_of_an_address_stays_empty():
    def ink(*customer):
        return pictures(write(customer=list(customer)))[0].getbbox()

    assert ink("a", "", "b") == ink("a", "a", "b")


LINES = {  # what is read, and what is drawn from left to right
    "Hebrew": ("שלום (עולם) 12", ["12 (םלוע) םולש"]),
    "Hebrew with Latin in brackets": ("שלום (Ltd) 12", ["12 (Ltd) םולש"]),
    "brackets in brackets": ("שלום [(א) ב]", ["[ב (א)] םולש"]),
    "a bracket that is alone": ("שלום (א", ["א) םולש"]),
    "brackets around all": ("(שלום)", ["(םולש)"]),
    "Latin with Hebrew in brackets": ("ABC (שלום) Ltd", ["ABC (םולש) Ltd"]),
    "Hebrew among brackets of Latin": ("A (b) ש", ["A (b) ש"]),
    "quotes and angles": ("ש «ב» <1> {ג}", ["{ג} <1> «ב» ש"]),
    "digits with a hyphen": ("שלום 12-34", ["12-34 םולש"]),
    "brackets in Latin alone": ("A (b) [c]", ["A (b) [c]"]),
    "Arabic": ("شركة (نور) 12", ["12 (ﺭﻮﻧ) ﺔﻛﺮﺷ"]),
    "each line by itself": ("שלום " * 9 + "(אבג)", ["םולש " * 8 + "םולש", "(גבא)"]),
    "Latin in a line of Hebrew": ("ש" * 30 + " (ABC Ltd.)", ["ש" * 30, "(.ABC Ltd)"]),
}


@pytest.mark.parametrize(("name", "lines"), LINES.values(), ids=LINES)
def test_letters_from_right_to_left_are_drawn_in_their_order_with_brackets_that_open_to_them(name, lines):
    drawn = fonts.set_in_lines(name, fonts.REGULAR, 10, 230)
    assert ["".join(part for _, part in line) for line in drawn] == lines


def differ(picture, other):
    """Tell whether two pictures differ by more than the smoothing of an edge."""
    return ImageChops.difference(picture, other).point(lambda shade: 255 * (shade > 100)).getbbox() is not None


PARTS = {  # a name, and the same by hand: the parts of its line from left to right, Arabic letters by their joined forms
    "Hebrew": ("שלום (עולם) 12", [("Vera", "12 ("), ("OpenSans", "םלוע"), ("Vera", ") "), ("OpenSans", "םולש")]),
    "Arabic": (
        "نور [نور] 12",
        [
            ("Vera", "12 ["),
            ("NotoSansArabic", "\ufead\ufeee\ufee7"),
            ("Vera", "] "),
            ("NotoSansArabic", "\ufead\ufeee\ufee7"),
        ],
    ),
    "Latin": ("Example (Ltd)", [("Vera", "Example (Ltd)")]),
    "marks of direction": (
        "\N{RIGHT-TO-LEFT ISOLATE}\N{RIGHT-TO-LEFT MARK}שלום\N{ARABIC LETTER MARK}\N{POP DIRECTIONAL ISOLATE}",
        [("OpenSans", "םולש")],
    ),
    "a soft hyphen": ("Exam\N{SOFT HYPHEN}ple", [("Vera", "Example")]),
}


@pytest.mark.parametrize(("name", "parts"), PARTS.values(), ids=PARTS)
def test_a_name_with_brackets_looks_as_if_it_were_set_by_hand(name, parts):
    [picture] = pictures(write(customer=[name]))
    [without] = pictures(write(customer=[""]))
    file = BytesIO()
    canvas = Canvas(file, pagesize=(WIDTH, HEIGHT))
    text = canvas.beginText(WIDTH / 2, 701)
    for font, part in parts:
        text.setFont(font, 10)
        text.textOut(part)
    canvas.drawText(text)
    canvas.save()
    by_hand = ImageChops.add(without, pictures(file.getvalue())[0])
    assert not differ(picture, by_hand)
    assert differ(picture, without)
