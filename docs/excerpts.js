// A site that is opened as a file can fetch nothing: excerpts of search results come from texts.js.
if (location.protocol === "file:") {
  const root = new URL(document.documentElement.dataset.content_root, location);
  window.fetch = async (address) => {
    const page = new URL(address, location).href.slice(root.href.length).replace(/\.html$/, "");
    return { text: async () => TEXTS[page] };
  };
}
