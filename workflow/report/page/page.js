// A figure is saved from the picture that the page holds already.
for (const link of document.querySelectorAll("a.save")) {
  link.href = link.closest(".block").querySelector("img").src;
}

// Attention maps say what is pointed at or touched: a square's weight, or to what an output's symbol attends most.
for (const map of document.querySelectorAll(".map")) {
  const said = map.querySelector("output");
  const rows = [...map.querySelectorAll("tbody tr")];
  const most = (column) => {
    const cells = rows.map((row) => row.cells[column + 1]);
    const weights = cells.map((cell) => [Number(cell.title.split(": ").pop()), cell]);
    weights.sort((one, other) => Math.abs(other[0]) - Math.abs(one[0]));
    return weights.slice(0, 3).map((one) => one[1].title).join("; ");
  };
  for (const head of map.querySelectorAll("thead th")) {
    head.title = most(Number(head.dataset.column));
  }
  const tell = (event) => {
    const cell = event.target.closest("[title]");
    if (!cell) return;
    map.querySelectorAll(".here").forEach((one) => one.classList.remove("here"));
    cell.classList.add("here");
    said.textContent = cell.title;
  };
  map.addEventListener("pointerover", tell);
  map.addEventListener("click", tell);
}
