// Mends what Django's scripts add to a page: a name on an icon, which screen readers read only where it has a role.
"use strict";

window.addEventListener("load", () => {
  for (const icon of document.querySelectorAll(".help-tooltip[aria-label]")) icon.setAttribute("role", "img");
});
