// The order of search results: the manual's pages first, the history and dumps of figures last.
// The other numbers are Sphinx's own.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    ["CHANGELOG", "docs/history", "docs/claims", "docs/gallery"].includes(docname) ? score - 100 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
