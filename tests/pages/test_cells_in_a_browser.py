"""Staff choose the cell whose lists they see, where there are several. In a real Chromium."""

import os
from typing import Any

import pytest

from gateway_project.db import cell
from tests import cells, factories
from tests.browser import faults_everywhere, sign_in
from tests.pages.desk_pages import ROOT, root

__all__ = ["root"]

pytestmark = pytest.mark.one_cell


def test_staff_choose_the_cell_of_lists(open_page: Any, root: Any) -> None:
    with cells.added() as second:
        for number in (cell.FIRST, second):
            with cell.use(number):
                factories.make_account(f"Of cell {number}", cents=1000)
        page = open_page()
        sign_in(page, ROOT, "/admin/billing/account/")
        assert page.get_by_label("Cell").input_value() == str(second)  # where accounts are opened
        assert page.get_by_text("Of cell 2").count() == 1
        page.get_by_label("Cell").select_option("1")
        page.get_by_role("button", name="Show").click()
        page.get_by_text("Of cell 1").wait_for()
        assert page.get_by_text("Of cell 2").count() == 0
        if folder := os.environ.get("PICTURES"):
            page.screenshot(path=f"{folder}/cells.png")
        assert faults_everywhere(page, "cells") == []
