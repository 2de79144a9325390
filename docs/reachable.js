// What scrolls can be reached by keyboard, and what the theme leaves without a name or a level gets one.
addEventListener("DOMContentLoaded", () => {
  const reachable = () => {
    for (const box of document.querySelectorAll("pre, .table-wrapper")) {
      box.toggleAttribute("tabindex", false);
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    }
  };
  reachable();
  addEventListener("resize", reachable);
  addEventListener("load", reachable);

  for (const caption of document.querySelectorAll(".sidebar-tree [role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
});
