// A figure is saved from the picture that the page holds already, as it is or drawn as a PNG.
const PNG_SCALE = 2; // pixels of the PNG a pixel of the picture
for (const link of document.querySelectorAll("a.save")) {
  const picture = link.closest(".block").querySelector("img");
  link.href = picture.src;
  const png = document.createElement("a");
  png.href = link.href;
  png.download = link.download.replace(/svg$/, "png");
  png.textContent = png.download;
  png.addEventListener("click", async (event) => {
    if (png.href.startsWith("data:image/png")) return;
    event.preventDefault();
    // A phone shows another picture than the one that is saved.
    const saved = new Image();
    saved.src = picture.src;
    await saved.decode();
    const canvas = document.createElement("canvas");
    canvas.width = PNG_SCALE * saved.naturalWidth;
    canvas.height = PNG_SCALE * saved.naturalHeight;
    const drawing = canvas.getContext("2d");
    drawing.fillStyle = "#fff";
    drawing.fillRect(0, 0, canvas.width, canvas.height);
    drawing.drawImage(saved, 0, 0, canvas.width, canvas.height);
    png.href = canvas.toDataURL("image/png");
    png.click();
  });
  link.after(png);
}

// What is chosen on the page stands in its address, which can be passed on.
const state = new URLSearchParams(location.search);
const keep = (name, value) => {
  if (value) state.set(name, value);
  else state.delete(name);
  const query = state.size ? `?${state}` : "";
  // Some browsers do not let a page that is opened as a file change its address.
  try { history.replaceState(null, "", `${location.pathname}${query}${location.hash}`); } catch { /* it stays */ }
};

// Headings and rows have links to themselves. The sign is of the style, so that no text changes.
const linked = (place, id, name) => {
  const link = document.createElement("a");
  link.className = "anchor";
  link.href = `#${id}`;
  link.setAttribute("aria-label", `Link to ${name}`);
  place.append(link);
};
for (const heading of document.querySelectorAll("main > section > h2, .block > h3")) {
  linked(heading, heading.parentElement.id, heading.textContent.trim().split(/\s*⚠/)[0]);
}
for (const table of document.querySelectorAll(".block[id] .scroll:not(.data, .map .scroll) > table")) {
  const block = table.closest(".block").id;
  [...table.tBodies[0].rows].forEach((row, index) => {
    const head = row.querySelector("th[scope=row]");
    if (!head) return;
    row.id = `${block}-row${index + 1}`;
    linked(head, row.id, `the row of ${head.textContent.trim()}`);
    // Tables have too many rows for each to be a tab stop.
    head.lastElementChild.tabIndex = -1;
  });
}
// What an address names is opened, if it is folded.
const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);

// Commands and tables are copied, tables with tabs between their cells.
const copied = (text, button) => {
  const done = () => { button.textContent = "Copied"; };
  const byHand = () => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    if (document.execCommand("copy")) done();
    area.remove();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand);
  else byHand();
};
const copyButton = (words, text) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = words;
  button.addEventListener("click", () => copied(text(), button));
  return button;
};
for (const code of document.querySelectorAll(".made code, footer code")) {
  code.after(" ", copyButton("Copy", () => code.textContent));
}
for (const downloads of document.querySelectorAll(".block .downloads")) {
  const table = downloads.closest(".block").querySelector(".scroll:not(.map .scroll) > table");
  if (!table) continue;
  const line = (row) => [...row.cells].map((cell) => cell.textContent.trim()).join("\t");
  downloads.append(copyButton("Copy table", () => [...table.rows].map(line).join("\n")));
}

// What scrolls can be reached by keyboard, and nothing else that is no link or choice.
const reachable = () => {
  for (const box of document.querySelectorAll(".scroll:not(.map .scroll), .frame")) {
    box.toggleAttribute("tabindex", false);
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
  }
};
reachable();
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true);

// Hints: models and cautions explain themselves where they are pointed at or focused.
const hint = document.getElementById("hint");
const explained = new Map();
for (const about of document.querySelectorAll(".about")) {
  const text = about.querySelector("span").textContent;
  explained.set(about.dataset.label, `${about.dataset.label} ${text}.`);
}
const hintOf = (element) => {
  if (element.matches("a.mark")) return document.querySelector(element.hash).textContent;
  return explained.get(element.textContent.trim());
};
const HINTED = ".model, a.mark, tbody th[scope=row], .example dt";
const hide = () => { hint.hidden = true; };
const explain = (event) => {
  const element = event.target.closest ? event.target.closest(HINTED) : null;
  const text = element && !element.closest(".map") ? hintOf(element) : null;
  if (!text) return hide();
  hint.textContent = text;
  hint.hidden = false;
  element.setAttribute("aria-describedby", "hint");
  const box = element.getBoundingClientRect();
  const above = box.bottom + hint.offsetHeight + 8 > innerHeight;
  hint.style.left = `${Math.max(8, Math.min(box.left, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${above ? box.top - hint.offsetHeight - 4 : box.bottom + 4}px`;
};
document.addEventListener("pointerover", explain);
document.addEventListener("focusin", explain);
document.addEventListener("focusout", hide);
document.addEventListener("scroll", hide, true);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

// Of several elements one is a tab stop; arrow keys lead to the others.
const rove = (elements, keys) => {
  elements.forEach((element, index) => { element.tabIndex = index ? -1 : 0; });
  elements.forEach((element, index) => element.addEventListener("keydown", (event) => {
    const step = event.key === keys[1] ? 1 : event.key === keys[0] ? -1 : 0;
    const next = elements[index + step];
    if (!step || !next) return;
    event.preventDefault();
    element.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }));
};

// Tables are sorted by the column whose heading is pressed: down, up, then as they were.
const numberOf = (text) => {
  const match = text.replace(/\u2212/g, "-").replace(/,(?=\d{3})/g, "").match(/^<? ?[+-]?\d+(\.\d+)?/);
  return match ? Number(match[0].replace(/[<+ ]/g, "")) : NaN;
};
const compare = (column, sign) => (first, second) => {
  const texts = [first, second].map((row) => row.cells[column].textContent.trim());
  if (!texts[0] || !texts[1]) return (texts[0] ? 0 : 1) - (texts[1] ? 0 : 1);
  const numbers = texts.map(numberOf);
  const order = numbers.some(Number.isNaN) ? texts[0].localeCompare(texts[1]) : numbers[0] - numbers[1];
  return sign * order;
};
const names = new Map(); // blocks -> tables that were seen, for their names in the address
for (const table of document.querySelectorAll(".scroll > table")) {
  if (table.closest(".map") || table.tBodies[0].rows.length < 2) continue;
  const block = table.closest("[id]").id;
  names.set(block, (names.get(block) ?? 0) + 1);
  const name = `sort.${block}.${names.get(block)}`;
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const NEXT = { none: "descending", descending: "ascending", ascending: "none" };
  const sort = (head, direction) => {
    const next = direction ?? NEXT[head.getAttribute("aria-sort")];
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    const rows = [...original];
    if (next !== "none") {
      head.setAttribute("aria-sort", next);
      rows.sort(compare(head.cellIndex, next === "ascending" ? 1 : -1));
    }
    table.classList.toggle("sorted", next !== "none");
    body.append(...rows);
    keep(name, next === "none" ? "" : `${head.cellIndex}.${next}`);
  };
  for (const head of heads) {
    head.classList.add("sortable");
    head.setAttribute("aria-sort", "none");
    head.title = "Sort by this column";
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(head);
    });
  }
  // The headings of a table are one tab stop; arrow keys lead from one to the next.
  rove(heads, ["ArrowLeft", "ArrowRight"]);
  const [column, direction] = (state.get(name) ?? "").split(".");
  if (heads[column] && direction in NEXT) sort(heads[column], direction);
}
// Outputs are chosen by kind of error and by words, and sorted by difference. A few are shown at first, and those of the
// whole test split, which the page holds packed, when they are asked for.
const FIRST = 6;
const MORE = 60;
const make = (tag, children, settings) => {
  const element = Object.assign(document.createElement(tag), settings);
  element.append(...children);
  return element;
};
const PIECES = { added: "ins", missing: "del" };
const pieceOf = ([kind, origin, text]) => {
  const inner = origin && kind !== "missing" ? make("mark", [text], { className: origin, title: origin }) : text;
  return kind in PIECES ? make(PIECES[kind], [inner]) : inner;
};
const cardOf = (part, isLetters, hasTasks) => {
  const [task, number, , , given, outputs] = part;
  const space = isLetters ? "" : " ";
  const lines = given.map(([label, text]) => (
    make("div", [make("dt", [label]), make("dd", [text])], { className: "given" })));
  for (const [label, pieces] of outputs) {
    const texts = pieces.flatMap((piece) => [pieceOf(piece), space]);
    const isRight = pieces.every(([kind]) => kind === "same");
    const line = [make("dt", [label]), make("dd", texts.length ? texts : ["(empty)"])];
    lines.push(make("div", line, isRight ? { className: "right" } : {}));
  }
  const head = make("h4", [`${hasTasks ? `${task}, row` : "Row"} ${number}`]);
  return make("article", [head, make("dl", lines, { className: isLetters ? "letters" : "words" })],
    { className: "example" });
};
const unpacked = async (script) => {
  const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};
const textOf = (part) => [...part[4].map((line) => line[1]),
  ...part[5].flatMap(([, pieces]) => pieces.map((piece) => piece[2]))].join(" ");
for (const form of document.querySelectorAll(".choose:not(.pick)")) {
  const block = form.closest(".block");
  const list = block.querySelector(".rows");
  let rows = [...list.children].map((card) => ({
    kinds: card.dataset.kinds.split(" "),
    difference: Number(card.dataset.difference),
    text: card.textContent.toLowerCase(),
    card: () => card,
  }));
  const said = form.querySelector("output");
  const more = make("button", [], { type: "button" });
  let count = FIRST;
  const choose = () => {
    const kind = form.elements.kind.value;
    const words = form.elements.words.value.trim().toLowerCase();
    const order = form.elements.order.value;
    const fitting = rows.filter((row) => (!kind || row.kinds.includes(kind)) && (!words || row.text.includes(words)));
    const sign = order === "most" ? -1 : 1;
    if (order) fitting.sort((first, second) => sign * (first.difference - second.difference));
    list.replaceChildren(...fitting.slice(0, count).map((row) => row.card()));
    const left = fitting.length - count;
    more.hidden = left <= 0;
    const part = more.hidden ? "" : `, of which ${count.toLocaleString("en")} are shown`;
    said.textContent = `${fitting.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows${part}`;
    more.textContent = left > MORE ? `Show ${MORE} more` : `Show all ${fitting.length.toLocaleString("en")}`;
  };
  more.addEventListener("click", () => {
    count += MORE;
    choose();
  });
  const fields = ["kind", "order", "words"];
  for (const field of fields) {
    const value = state.get(`${block.id}.${field}`);
    if (value) form.elements[field].value = value;
  }
  form.addEventListener("input", () => {
    fields.forEach((field) => keep(`${block.id}.${field}`, form.elements[field].value.trim()));
    count = FIRST;
    choose();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  list.after(more);
  form.hidden = false;
  choose();

  const script = block.querySelector("script.whole");
  if (!script || !("DecompressionStream" in window)) continue;
  const size = Number(script.dataset.rows).toLocaleString("en");
  const every = Number(script.dataset.every);
  const words = every > 1 ? `Load ${size} rows, one of ${every} of the test split` : `Load all ${size} rows of the test split`;
  const load = make("button", [words], { type: "button", className: "copy" });
  const loadAll = async () => {
    load.disabled = true;
    const parts = await unpacked(script);
    const isLetters = Boolean(block.querySelector(".letters"));
    const hasTasks = new Set(parts.map(([task]) => task)).size > 1;
    rows = parts.map((part) => {
      let card = null;
      return {
        kinds: part[2],
        difference: part[3],
        text: textOf(part).toLowerCase(),
        card: () => { card ??= cardOf(part, isLetters, hasTasks); return card; },
      };
    });
    load.remove();
    keep(`${block.id}.rows`, "all");
    choose();
  };
  load.addEventListener("click", loadAll);
  form.append(load);
  if (state.get(`${block.id}.rows`)) loadAll();
}

// Attention maps of a row are linked: what is pointed at, touched or reached by arrow keys in one is shown in all.
const weightOf = (cell) => Math.abs(Number(cell.title.split(": ").pop().replace("\u2212", "-")));
const attended = (map, column) => {
  const cells = [...map.querySelectorAll("tbody tr")].map((line) => line.cells[column + 1]);
  cells.sort((first, second) => weightOf(second) - weightOf(first));
  return cells.slice(0, 3).map((cell) => cell.title).join("; ");
};
const shownMaps = (row) => [...row.children].filter((map) => !map.hidden);
for (const row of document.querySelectorAll(".maps")) {
  const show = (cell) => {
    row.querySelectorAll(".here").forEach((other) => other.classList.remove("here"));
    const isHead = cell.tagName === "TH";
    for (const map of shownMaps(row)) {
      const same = map.querySelector("table").rows[cell.parentElement.rowIndex].cells[cell.cellIndex];
      same.classList.add("here");
      const text = isHead ? attended(map, Number(cell.dataset.column)) : same.title;
      map.querySelector("output").textContent = text;
    }
  };
  const pointed = (event) => {
    const cell = event.target.closest("td[title], thead th");
    if (cell) show(cell);
  };
  row.addEventListener("pointerover", pointed);
  row.addEventListener("click", pointed);
  row.addEventListener("focusin", pointed);
  const before = row.previousElementSibling.previousElementSibling;
  const after = row.nextElementSibling.nextElementSibling;
  const isMaps = (other) => other && other.matches(".maps");
  // One square of a block is a tab stop.
  if (!isMaps(before)) row.querySelector("td[title]").tabIndex = 0;
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  row.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td[title]");
    const step = STEPS[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    let line = cell.closest("table").rows[cell.parentElement.rowIndex + step[0]];
    if (step[0] === 1 && !line && isMaps(after)) line = shownMaps(after)[0].querySelector("tbody").rows[0];
    if (step[0] === -1 && line.parentElement.tagName === "THEAD" && isMaps(before)) {
      line = [...shownMaps(before)[0].querySelector("tbody").rows].pop();
    }
    const next = line && line.cells[Math.min(cell.cellIndex + step[1], line.cells.length - 1)];
    if (!next || !next.title) return;
    cell.removeAttribute("tabindex");
    next.tabIndex = 0;
    next.focus();
  });
}

// Any models' maps are shown side by side, of two models their difference too. A map that is not there yet is a copy
// of its row's first one with other weights.
const MARKED = 0.25; // a difference from here on is marked by its sign
const filled = (map, key, label, weights) => {
  const differs = key.includes(" ");
  const copy = map.cloneNode(true);
  copy.dataset.models = key;
  copy.classList.toggle("differ", differs);
  copy.querySelector("h5").textContent = label;
  const box = copy.querySelector(".scroll");
  box.setAttribute("aria-label", box.getAttribute("aria-label").replace(map.querySelector("h5").textContent, label));
  copy.querySelector("output").textContent = "\u00a0";
  [...copy.querySelectorAll("tbody tr")].forEach((line, source) => {
    weights[source].forEach((weight, target) => {
      const cell = line.cells[target + 1];
      const size = Math.abs(weight);
      const sign = weight < 0 ? "\u2212" : differs ? "+" : "";
      cell.style.setProperty("--w", size.toFixed(2));
      cell.title = `${cell.title.slice(0, cell.title.lastIndexOf(": "))}: ${sign}${size.toFixed(3)}`;
      cell.textContent = differs && size >= MARKED ? sign : "";
      cell.className = differs && weight < 0 ? "less" : "";
      cell.removeAttribute("tabindex");
    });
  });
  copy.querySelectorAll(".here").forEach((cell) => cell.classList.remove("here"));
  return copy;
};
for (const form of document.querySelectorAll(".pick")) {
  const block = form.closest(".block");
  const { labels, weights } = JSON.parse(block.querySelector("script.weights").textContent);
  const boxes = [...form.querySelectorAll("input")];
  const rows = [...block.querySelectorAll(".maps")];
  const mapOf = (row, index, key) => {
    const there = [...row.children].find((map) => map.dataset.models === key);
    if (there) return there;
    const [first, second] = key.split(" ").map(Number);
    const less = weights[first][index];
    if (second === undefined) return filled(row.children[0], key, labels[first], less);
    const difference = weights[second][index].map((line, source) => (
      line.map((weight, target) => weight - less[source][target])));
    return filled(row.children[0], key, `${labels[second]} \u2212 ${labels[first]}`, difference);
  };
  form.hidden = false;
  const choose = () => {
    const keys = boxes.filter((box) => box.checked).map((box) => box.value);
    if (keys.length === 2) keys.push(keys.join(" "));
    rows.forEach((row, index) => {
      const maps = keys.map((key) => mapOf(row, index, key));
      [...row.children].forEach((map) => { map.hidden = true; });
      maps.forEach((map) => { map.hidden = false; });
      row.append(...maps);
    });
    block.querySelectorAll(".map td[tabindex]").forEach((cell) => cell.removeAttribute("tabindex"));
    shownMaps(rows[0])[0].querySelector("td[title]").tabIndex = 0;
  };
  form.addEventListener("input", (event) => {
    // One model at least is shown.
    if (!boxes.some((box) => box.checked)) event.target.checked = true;
    keep(`${block.id}.models`, boxes.filter((box) => box.checked).map((box) => box.value).join("."));
    choose();
  });
  const chosen = (state.get(`${block.id}.models`) ?? "").split(".");
  if (boxes.some((box) => chosen.includes(box.value))) {
    boxes.forEach((box) => { box.checked = chosen.includes(box.value); });
    choose();
  }
}

// What explains a number is open in print.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details.printed:not([open])")];
  folded.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));

// The section that one reads is marked.
const links = new Map();
for (const link of document.querySelectorAll("nav a[href^='#']")) {
  links.set(document.querySelector(link.hash), link);
}
const mark = () => {
  const above = [...links.keys()].filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
  const current = above.pop() || [...links.keys()][0];
  for (const [section, link] of links) {
    if (section === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
};
addEventListener("scroll", mark, { passive: true });
mark();
reveal();
