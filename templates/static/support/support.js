// Mends what Django's scripts add to a page: a name on an icon, which screen readers read only where it has a role, and fields
// with a search, which have no name of their own. Labels the cells of a list, for phones.
"use strict";

window.addEventListener("load", () => {
  for (const icon of document.querySelectorAll(".help-tooltip[aria-label]")) icon.setAttribute("role", "img");
  window.django?.jQuery?.(nameSearches);  // after what makes the searches, which waits for the same
});

function nameSearches() {
  for (const field of document.querySelectorAll("select.admin-autocomplete")) {
    const label = document.querySelector(`label[for="${field.id}"]`);
    const box = field.parentElement.querySelector("[role=combobox]");
    if (!label || !box) continue;
    label.id ||= `${field.id}_label`;
    box.setAttribute("aria-labelledby", `${label.id} ${box.getAttribute("aria-labelledby")}`);
    box.querySelector("[role=textbox]")?.setAttribute("aria-labelledby", label.id);
  }
}

// The group of the rail that has the list of the page.
const group = document.querySelector(".support-rail [aria-current]")?.closest("details");
if (group) group.open = true;

// A phone shows the cells of a row as blocks, which would lose their meaning as a table: hence the explicit roles.
const list = document.getElementById("result_list");
if (list) {
  const heads = [...list.tHead.rows[0].cells];
  const setRole = (elements, role) => { for (const each of elements) each.setAttribute("role", role); };
  setRole([list], "table");
  setRole([list.tHead, ...list.tBodies], "rowgroup");
  setRole(list.rows, "row");
  setRole(heads, "columnheader");
  for (const cell of list.querySelectorAll("tbody :is(td, th)")) {
    setRole([cell], cell.matches("th") ? "rowheader" : "cell");
    const head = heads[cell.cellIndex];
    cell.dataset.label = (head.querySelector(".text") ?? head).textContent.trim();  // without its place in the order
  }
}
