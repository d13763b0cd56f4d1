// Names for what the theme leaves without one: readers that speak a page need them.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll(".bd-sidenav summary")) {
    const page = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `pages below ${page.textContent.trim()}`);
  }
  // Their visible words, as "Search Ctrl+K", are their names.
  for (const told of document.querySelectorAll(".search-button-field, details.hide > summary")) told.removeAttribute("aria-label");
  const sidebar = document.getElementById("pst-primary-sidebar");
  sidebar?.setAttribute("role", "region");
  sidebar?.setAttribute("aria-label", "Site");
  // The empty corner of a table is the head of nothing.
  for (const head of document.querySelectorAll("th")) {
    if (head.textContent.trim()) continue;
    const corner = document.createElement("td");
    corner.className = head.className;
    head.replaceWith(corner);
  }
});
